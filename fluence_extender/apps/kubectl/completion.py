"""Completion in bash, zsh and fish, all of which kubectl does for its plugins.

kubectl runs ``kubectl_complete-fluence`` with the words typed so far, the last one unfinished. The answer is one
candidate a line, with a description after a tab, then a line with a directive of Cobra's (the library kubectl's command
line is made with): 0 lets the shell add names of files, 4 doesn't.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

from fluence_extender.apps.kubectl.commands import COMMANDS, command

_FILES, _NO_FILES = 0, 4
_PATIENCE = 3.0
"""Seconds that a shell waits for names."""

_DRY_RUNS = ("client", "none", "server")
_FLAG = re.compile(r" +(?:-\w, )?(--[a-z-]+)\S*(?: [A-Z]+)?  +(\S.*)")
_OUTPUTS = ("json", "yaml", "wide", "name")
_SWITCHES = ("gone", "nodes")
"""Switches of the questions whose words are completed."""

_TAKES_FILE = ("-f", "--filename", "-k", "--kustomize", "--attributes")


def _keys() -> list[str]:
    from fluence_extender.apps.kubectl.keys import KEYS

    return [
        f"{one.key.partition('/')[2].rstrip('*')}\t{one.kind} on {one.on}"
        for one in KEYS
        if "*" not in one.key
    ]


def _names(path: str, name: str, flags: Sequence[str], namespaced: bool) -> Iterable[str]:
    """The names that the service knows, nothing where it doesn't answer at once.

    ``flags`` are those typed so far: they say which cluster and, of what is ``namespaced``, which namespace.
    """
    from fluence_extender.apps.kubectl.errors import CommandError
    from fluence_extender.apps.kubectl.question import read_question
    from fluence_extender.apps.kubectl.service import Service, namespace_of

    try:
        question = read_question("completion", flags, own=_SWITCHES)
        if question is None:
            return ()
        wanted = {"namespace": namespace_of(question)} if namespaced else {}
        found = Service(question, _PATIENCE).items(path, **wanted)
    except CommandError:
        return ()
    return dict.fromkeys(str(one[name]) for one in found)


_CHOICES: Mapping[tuple[str, ...], Iterable[str] | Callable[[Sequence[str]], Iterable[str]]] = {
    ("-o",): _OUTPUTS,
    ("--output",): _OUTPUTS,
    ("completion", ""): ("bash", "zsh", "fish"),
    ("top", ""): ("nodes", "jobs"),
    ("explain", ""): lambda _: _keys(),
    ("why", ""): lambda flags: _names("/v1/gangs", "name", flags, namespaced=True),
    ("jobs", ""): lambda flags: _names("/v1/gangs", "name", flags, namespaced=True),
    ("backends", ""): lambda flags: _names("/v1/backends", "backend", flags, namespaced=False),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of ``kubectl_complete-fluence``."""
    candidates, directive = complete(list(sys.argv[1:] if argv is None else argv))
    for candidate in candidates:
        print(candidate)
    print(f":{directive}")
    return 0


def complete(words: Sequence[str]) -> tuple[list[str], int]:
    """Candidates for the last word, and the directive."""
    typed = words[-1] if words else ""
    before = words[:-1]
    if not before or before == ["help"]:
        return _beginning(typed, (f"{one.name}\t{one.summary}" for one in COMMANDS)), _NO_FILES
    chosen = command(before[0])
    if chosen is None:
        return [], _NO_FILES
    if before[-1] in _TAKES_FILE:
        return [], _FILES
    if typed.startswith("--dry-run="):
        return _beginning(typed, (f"--dry-run={mode}" for mode in _DRY_RUNS)), _NO_FILES
    if typed == "" or not typed.startswith("-"):
        choices = _CHOICES.get((before[-1],)) or (
            _CHOICES.get((chosen.name, "")) if _flags_alone(before[1:]) else None
        )
        if choices is not None:
            return _beginning(typed, choices(before[1:]) if callable(choices) else choices), _NO_FILES
    if typed.startswith("-"):
        return _beginning(typed, _flags(chosen.usage)), _FILES if "=" in typed else _NO_FILES
    return [], _NO_FILES


def _flags_alone(words: Sequence[str]) -> bool:
    """Whether there is no positional word yet, and the last flag doesn't wait for its value."""
    if not words:
        return True
    from fluence_extender.apps.kubectl.errors import CommandError
    from fluence_extender.apps.kubectl.question import read_question

    if any(word in ("-h", "--help") for word in words):
        return False
    try:
        return read_question("completion", words, own=_SWITCHES) is not None
    except CommandError:
        return False


def _flags(usage: str) -> Iterable[str]:
    """The long flags that a command's usage explains, and help."""
    for line in usage.splitlines():
        explained = _FLAG.fullmatch(line)
        if explained is not None:
            yield f"{explained.group(1)}\t{explained.group(2)}"
    yield "--help\texplain the command"


def _beginning(typed: str, candidates: Iterable[str]) -> list[str]:
    return [one for one in candidates if one.startswith(typed)]
