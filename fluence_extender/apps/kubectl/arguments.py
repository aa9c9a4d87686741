"""Flags as kubectl's users write them: ``-fX``, ``-f=X``, ``-f X``, ``-Rf X``, ``--filename=X``.

Ours are taken out; the others, and all positional words, are kept for kubectl in their order. Which of kubectl's flags
take a value must be known, so that a value is never read as a flag; an unknown flag is taken to have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fluence_extender.apps.kubectl.errors import UsageError

DEFAULT_NAMESPACE = "kube-system"
DRY_RUNS = ("none", "server", "client")

_TEXTS = ("filename", "kustomize", "attributes", "fluence-ns", "cost-tol")
_SWITCHES = ("recursive", "force-select", "confirm", "help")
_SHORT = {"f": "filename", "k": "kustomize", "R": "recursive", "h": "help"}

# kubectl 1.36: flags that say which cluster and who is asking; with a value, and without.
CONNECTION = frozenset(
    {
        *(
            "as",
            "as-group",
            "as-uid",
            "as-user-extra",
            "cache-dir",
            "certificate-authority",
            "client-certificate",
        ),
        *(
            "client-key",
            "cluster",
            "context",
            "kubeconfig",
            "kuberc",
            "password",
            "request-timeout",
            "server",
        ),
        *("tls-server-name", "token", "user", "username"),
    }
)
CONNECTION_SWITCHES = frozenset({"disable-compression", "insecure-skip-tls-verify", "match-server-version"})
_VALUED = CONNECTION | {
    *("applyset", "field-manager", "grace-period", "log-flush-frequency", "namespace", "output", "profile"),
    *("profile-output", "prune-allowlist", "raw", "selector", "template", "timeout", "v", "vmodule"),
}
_VALUED_SHORT = {"l": "selector", "n": "namespace", "o": "output", "s": "server", "v": "v"}


@dataclass(slots=True)
class Arguments:
    """What was asked. ``forwarded`` goes to kubectl as it is; ``connection`` is the part that names the cluster.

    ``texts`` has the values of our flags in their order, ``words`` are the positional ones in ``forwarded``.
    """

    texts: dict[str, list[str]] = field(default_factory=dict)
    switches: set[str] = field(default_factory=set)
    dry_run: str = "none"
    forwarded: list[str] = field(default_factory=list)
    connection: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    @property
    def files(self) -> list[str]:
        """What ``-f`` names; like kubectl's, one flag may name several, with commas."""
        return [name for text in self.texts.get("filename", ()) for name in text.split(",") if name]

    @property
    def kustomize(self) -> str:
        """The folder of ``-k``, empty without."""
        return self._last("kustomize")

    @property
    def attributes(self) -> list[str]:
        """Attribute files."""
        return self.texts.get("attributes", [])

    @property
    def fluence_namespace(self) -> str:
        """Where the ConfigMap is."""
        return self._last("fluence-ns") or DEFAULT_NAMESPACE

    @property
    def cost_tolerance(self) -> float:
        """US dollars. Raises `UsageError`."""
        from fluence_extender.selection.backend import parse_number

        text = self._last("cost-tol") or "0"
        number = parse_number(text)
        if number is None or number < 0:
            raise UsageError(f"--cost-tol: {text!r} is no amount in US dollars; write e.g. --cost-tol=0.05")
        return number

    def _last(self, name: str) -> str:
        return (self.texts.get(name) or [""])[-1]


def parse(words: Sequence[str]) -> Arguments:
    """Read the words after the command. Raises `UsageError`."""
    parser = _Parser(words)
    parser.run()
    return parser.arguments


def verb_first(words: Sequence[str]) -> list[str]:
    """The words with the first positional one in front: ``--context c apply`` is ``apply --context c``."""
    parser = _Parser(words)
    parser.run(until_word=True)
    if not parser.arguments.words:
        return list(words)
    verb = parser.position - 1
    return [words[verb], *words[:verb], *words[verb + 1 :]]


class _Parser:
    def __init__(self, words: Sequence[str]) -> None:
        self.arguments = Arguments()
        self.position = 0
        self._words = words

    def run(self, until_word: bool = False) -> None:
        while self.position < len(self._words):
            word = self._words[self.position]
            self.position += 1
            if word == "--":
                rest = self._words[self.position :]
                self.arguments.forwarded += [word, *rest]
                self.arguments.words += rest
                return
            if word.startswith("--"):
                self._long(word)
            elif word.startswith("-") and word != "-":
                self._short(word)
            else:
                self.arguments.words.append(word)
                self.arguments.forwarded.append(word)
                if until_word:
                    return

    def _long(self, word: str) -> None:
        name, equals, value = word[2:].partition("=")
        if name in _TEXTS:
            self._text(name, value if equals else self._next(f"--{name}"))
        elif name in _SWITCHES:
            self._switch(name, value if equals else "true")
        elif name == "dry-run":
            self._dry_run(value if equals else "client")
        else:
            taken = [word]
            if name in _VALUED and not equals and self.position < len(self._words):
                taken.append(self._next(word))
            self._forward(taken, name)

    def _short(self, word: str) -> None:
        """A word of short flags; the first one that takes a value takes the rest of the word."""
        for index, letter in enumerate(word[1:], start=1):
            rest = word[index + 1 :]
            name = _SHORT.get(letter, "")
            if name in _TEXTS:
                self._text(name, rest.removeprefix("=") if rest else self._next(f"-{letter}"))
                return
            if not name:
                taken = [f"-{word[index:]}"]
                if letter in _VALUED_SHORT and not rest and self.position < len(self._words):
                    taken.append(self._next(taken[0]))
                self._forward(taken, _VALUED_SHORT.get(letter, ""))
                return
            if rest.startswith("="):
                self._switch(name, rest[1:])
                return
            self._switch(name, "true")

    def _forward(self, taken: list[str], name: str) -> None:
        arguments = self.arguments
        arguments.forwarded += taken
        if name in CONNECTION or name in CONNECTION_SWITCHES:
            arguments.connection += taken
        elif name != "namespace":
            arguments.foreign.append(taken[0])

    def _text(self, name: str, value: str) -> None:
        if not value:
            raise UsageError(f"--{name} requires a value")
        self.arguments.texts.setdefault(name, []).append(value)

    def _switch(self, name: str, value: str) -> None:
        if value.lower() in ("true", "t", "1"):
            self.arguments.switches.add(name)
        elif value.lower() in ("false", "f", "0"):
            self.arguments.switches.discard(name)
        else:
            raise UsageError(f"--{name}: {value!r} is neither true nor false")

    def _dry_run(self, value: str) -> None:
        if value not in DRY_RUNS:
            raise UsageError(f'--dry-run must be "none", "server" or "client", not "{value}"')
        self.arguments.dry_run = value

    def _next(self, flag: str) -> str:
        if self.position >= len(self._words):
            raise UsageError(f"{flag} requires a value")
        self.position += 1
        return self._words[self.position - 1]
