"""``kubectl fluence jobs``: the gangs, where each stands and why."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from time import sleep

from fluence_extender.apps.kubectl.errors import CommandError
from fluence_extender.apps.kubectl.figures import age, now, until
from fluence_extender.apps.kubectl.question import Question, read_question
from fluence_extender.apps.kubectl.service import Item, Service, namespace_of
from fluence_extender.apps.kubectl.tables import Column, answer, table

PERIOD = 2.0
"""Seconds between two looks of a watch."""

MOST_NODES = 3


def jobs(words: Sequence[str]) -> int:
    """``kubectl fluence jobs [NAME]``."""
    question = read_question("jobs", words, own=("gone",), most=1)
    if question is None:
        return 0
    namespace = namespace_of(question)
    service = Service(question)
    if "watch" in question.switches:
        return _watch(question, service, namespace)
    found = _look(question, service, namespace)
    where = f" in namespace {namespace}" if namespace else ""
    if question.words and not found:
        raise CommandError(f"no gang {question.words[0]}{where}; kubectl fluence jobs -A lists all")
    none = f"no gangs{where}"
    answer(question, "gang", found, columns(namespace), none)
    return 0


def columns(namespace: str) -> tuple[Column, ...]:
    """What is shown of gangs of one namespace, or of all (``""``)."""
    today = now()
    first = () if namespace else (Column("NAMESPACE", lambda gang: str(gang["namespace"])),)
    return (
        *first,
        Column("NAME", lambda gang: str(gang["name"])),
        Column("STATE", lambda gang: str(gang["state"])),
        Column("PLACED", _placed),
        Column("AGE", lambda gang: age(gang["created"], today)),
        Column("NODES", lambda gang: _few(gang, "node")),
        Column("BACKEND", lambda gang: _few(gang, "backend")),
        Column("STARTS IN", lambda gang: until(gang.get("expected_start"), today)),
        Column("KIND", lambda gang: str(gang["convention"]), wide=True),
        Column("WHY", lambda gang: str(gang["why"]), wide=True),
        Column("REASON", lambda gang: str(gang["reason"])),
    )


def _look(question: Question, service: Service, namespace: str) -> list[Item]:
    found = service.items("/v1/gangs", namespace=namespace, gone="gone" in question.switches and "true")
    return [gang for gang in found if not question.words or _is_named(gang, question.words[0])]


def _is_named(gang: Item, name: str) -> bool:
    """Whether it has that name, or is a part of what has it."""
    return bool(gang["name"] == name or gang["name"].startswith(f"{name}/"))


def _watch(question: Question, service: Service, namespace: str) -> int:
    """Print the table, and then a line for each gang that changes, until interrupted."""
    shown: dict[tuple[str, str, str], tuple[str, ...]] = {}
    widths: list[int] = []
    while True:
        found = {
            (gang["namespace"], gang["name"], gang["convention"]): gang
            for gang in _look(question, service, namespace)
        }
        changed = [gang for key, gang in found.items() if shown.get(key) != _seen(gang)]
        ended = [key for key in shown if key not in found]
        if changed:
            for line in table(columns(namespace), changed, question, widths):
                print(line)
            question.switches.add("no-headers")
        for _, name, _ in ended:
            print(f"{name} is gone")
        sys.stdout.flush()
        shown = {key: _seen(gang) for key, gang in found.items()}
        sleep(PERIOD)


def _seen(gang: Item) -> tuple[str, ...]:
    """What must change for a gang to be shown again: not its age."""
    return (gang["state"], gang["reason"], _placed(gang), _few(gang, "node"), _few(gang, "backend"))


def _placed(gang: Item) -> str:
    placed = sum(1 for member in gang["members"] if member["node"])
    return f"{placed}/{max(gang['size'], len(gang['members']))}"


def _few(gang: Item, what: str) -> str:
    names = list(dict.fromkeys(member[what] for member in gang["members"] if member[what]))
    more = len(names) - MOST_NODES
    return ", ".join(names[:MOST_NODES]) + (f" +{more}" if more > 0 else "")
