"""``kubectl fluence simulate -f FILE``: would it fit now, where, if not why, from when on, and with how much less."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from fluence_extender.apps.kubectl.arguments import parse
from fluence_extender.apps.kubectl.errors import UsageError
from fluence_extender.apps.kubectl.question import read_question
from fluence_extender.apps.kubectl.service import Service, namespace_of
from fluence_extender.apps.kubectl.sources import joined, read_sources
from fluence_extender.model.notation import first_few

DOES_NOT_FIT = 3
"""Exit code: the question was answered, and the answer is no."""

FILE_FLAGS = ("-f", "--filename", "-k", "--kustomize")
NODES_SHOWN = 8
FOLDED = 5
"""So many gangs one after the other of which the same is to be told are told of once."""


def simulate(words: Sequence[str]) -> int:
    """``kubectl fluence simulate -f FILE``."""
    files, rest = _files_apart(words)
    question = read_question("simulate", rest, ("json", "yaml"))
    if question is None:
        return 0
    if not files:
        raise UsageError("simulate needs manifests: -f FILE, a directory, a URL, or - for standard input")
    body = joined([source.content for source in read_sources(parse(files))])
    document = Service(question).ask("/v1/simulate", body, namespace=namespace_of(question) or "default")
    print(told(document, question.output), end="")
    return 0 if document["fits"] else DOES_NOT_FIT


def _files_apart(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words that name files, and the others."""
    files: list[str] = []
    rest: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word in FILE_FLAGS:
            if not left:
                raise UsageError(f"{word} requires a value")
            files += [word, left.pop(0)]
        elif word.startswith(("--filename=", "--kustomize=", "-f", "-k")) or word in ("-R", "--recursive"):
            files.append(word)
        else:
            rest.append(word)
    return files, rest


def told(document: Mapping[str, Any], output: str = "") -> str:
    """An answer of ``/v1/simulate`` for people, or as JSON or YAML."""
    if output == "json":
        return json.dumps(document, indent=2) + "\n"
    if output == "yaml":
        import yaml

        return yaml.safe_dump(dict(document), sort_keys=False)
    return "".join(f"{line}\n" for line in _lines(document))


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    for _, run in groupby(document["gangs"], _alike):
        alike = list(run)
        if len(alike) < FOLDED:
            for gang in alike:
                yield from _gang_lines(gang, f"{gang['gang']} ({_pods(gang)})", gang["placement"])
            continue
        names = f"{alike[0]['gang']} to {alike[-1]['gang']} ({len(alike):,} times {_pods(alike[0])})"
        placement = [one for gang in alike for one in gang["placement"]]
        yield from _gang_lines(alike[0], names, placement)
    for ignored in document["ignored"]:
        yield f"note: {ignored} was left out: nothing is known of pods that it makes"
    for note in document["notes"]:
        yield f"note: {note}"


def _alike(gang: Mapping[str, Any]) -> tuple[object, ...]:
    """What is told of a gang beside its name and its nodes."""
    preemption = gang.get("preemption") or {}
    # Who would go is different for each.
    named = gang["gang"] if preemption.get("victims") else ""
    reductions = [one["text"] for one in gang["reductions"]]
    return (
        *(gang.get(key) for key in ("members", "fits", "reason", "earliestStart")),
        preemption.get("text"),
        named,
        reductions,
    )


def _pods(gang: Mapping[str, Any]) -> str:
    return f"{gang['members']:,} pod" + ("" if gang["members"] == 1 else "s")


def _gang_lines(gang: Mapping[str, Any], name: str, placement: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if gang["fits"]:
        yield f"{name}: fits now"
        yield from _places(placement)
        return
    yield f"{name}: doesn't fit now"
    yield f"  {gang['reason']}"
    if gang["earliestStart"]:
        yield f"  at the earliest in {gang['earliestIn']} ({gang['earliestStart']}), by what running pods say"
    if gang.get("preemption"):
        yield f"  {gang['preemption']['text']}"
        yield from _places(gang["preemption"]["placement"], "then ")
    for reduction in gang["reductions"]:
        yield f"  would fit now: {reduction['text']}"


def _places(placement: Sequence[Mapping[str, Any]], when: str = "") -> Iterator[str]:
    if not placement:
        return
    nodes = Counter(one["node"] for one in placement)
    told = [f"{node} ({count})" if count > 1 else node for node, count in nodes.items()]
    yield f"  {when}on {first_few(told, NODES_SHOWN)}"
    backends = sorted({one["backend"] for one in placement if one["backend"]})
    if backends:
        yield f"  backends: {', '.join(backends)}"
