"""The command line of a question: flags that all of them have, and which cluster is asked.

Unlike ``apply`` and its kin a question hands nothing on but the flags that say which cluster and who is asking, so a
flag that nobody knows is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fluence_extender.apps.kubectl.arguments import CONNECTION, CONNECTION_SWITCHES, DEFAULT_NAMESPACE
from fluence_extender.apps.kubectl.commands import command
from fluence_extender.apps.kubectl.errors import UsageError

OUTPUTS = ("json", "yaml", "wide", "name")

_TEXTS = {"output": "output", "namespace": "namespace", "server": "server", "fluence-ns": "service_namespace"}
_SWITCHES = ("watch", "all-namespaces", "no-headers", "help")
_SHORT_TEXTS = {"o": "output", "n": "namespace"}
_SHORT_SWITCHES = {"w": "watch", "A": "all-namespaces", "h": "help"}


@dataclass(slots=True)
class Question:
    """What was asked; ``connection`` are kubectl's own flags, ``server`` is the service's URL, "" for the proxy."""

    verb: str
    words: list[str] = field(default_factory=list)
    switches: set[str] = field(default_factory=set)
    connection: list[str] = field(default_factory=list)
    output: str = ""
    namespace: str = ""
    server: str = ""
    service_namespace: str = DEFAULT_NAMESPACE

    @property
    def wide(self) -> bool:
        """Whether tables have all their columns."""
        return self.output == "wide"


def read_question(
    verb: str, words: Sequence[str], outputs: Sequence[str] = OUTPUTS, own: Sequence[str] = (), most: int = 0
) -> Question | None:
    """Read the words after ``verb``, at most ``most`` of them no flags; None once its help has been shown.

    ``own`` are the switches that this question has beside the common ones. Raises `UsageError`.
    """
    question = _Reader(verb, words, (*_SWITCHES, *own)).read()
    if "help" in question.switches:
        explained = command(verb)
        assert explained is not None, verb
        print(explained.usage, end="")
        return None
    if question.output and question.output not in outputs:
        raise UsageError(f'-o must be one of {", ".join(outputs)}, not "{question.output}"')
    if len(question.words) > most:
        raise UsageError(f'{verb} doesn\'t know "{question.words[most]}"; see kubectl fluence {verb} --help')
    return question


class _Reader:
    def __init__(self, verb: str, words: Sequence[str], switches: Sequence[str]) -> None:
        self._question = Question(verb)
        self._words = list(words)
        self._switches = switches

    def read(self) -> Question:
        while self._words:
            word = self._words.pop(0)
            if word.startswith("--") and len(word) > 2:
                self._long(word)
            elif word.startswith("-") and len(word) > 1 and word != "--":
                self._short(word)
            elif word != "--":
                self._question.words.append(word)
        return self._question

    def _long(self, word: str) -> None:
        name, equals, value = word[2:].partition("=")
        if name in _TEXTS:
            setattr(self._question, _TEXTS[name], value if equals else self._next(word))
        elif name in self._switches:
            if not equals or value.lower() in ("true", "t", "1"):
                self._question.switches.add(name)
        elif name in CONNECTION_SWITCHES or (name in CONNECTION and equals):
            self._question.connection.append(word)
        elif name in CONNECTION:
            self._question.connection += [word, self._next(word)]
        else:
            self._unknown(f"--{name}")

    def _short(self, word: str) -> None:
        for index, letter in enumerate(word[1:], start=1):
            rest = word[index + 1 :].removeprefix("=")
            if letter in _SHORT_TEXTS:
                setattr(self._question, _SHORT_TEXTS[letter], rest or self._next(f"-{letter}"))
                return
            if letter == "s":
                self._question.connection.append(f"--server={rest or self._next('-s')}")
                return
            if letter not in _SHORT_SWITCHES or _SHORT_SWITCHES[letter] not in self._switches:
                self._unknown(f"-{letter}")
            self._question.switches.add(_SHORT_SWITCHES[letter])

    def _next(self, flag: str) -> str:
        if not self._words:
            raise UsageError(f"{flag} requires a value")
        return self._words.pop(0)

    def _unknown(self, flag: str) -> None:
        verb = self._question.verb
        raise UsageError(f'{verb} doesn\'t know "{flag}"; see kubectl fluence {verb} --help')
