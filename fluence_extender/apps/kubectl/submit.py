"""``select``, ``apply`` and ``create``: choose, say so, and print or submit."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from fluence_extender.apps.kubectl.arguments import Arguments, parse
from fluence_extender.apps.kubectl.commands import command
from fluence_extender.apps.kubectl.errors import UsageError
from fluence_extender.apps.kubectl.knowledge import Knowledge
from fluence_extender.apps.kubectl.program import kubectl_program, run_kubectl
from fluence_extender.apps.kubectl.resolve import Resolved, resolve
from fluence_extender.apps.kubectl.sources import STDIN, joined, read_sources
from fluence_extender.apps.kubectl.terminal import DIM, GREEN, confirmed, tell, tell_note

QUESTION = "Apply with the selections above? [y]es / [n]o (cancel): "


def apply(words: Sequence[str]) -> int:
    """``kubectl fluence apply``."""
    return _submit("apply", words)


def create(words: Sequence[str]) -> int:
    """``kubectl fluence create``."""
    return _submit("create", words)


def select(words: Sequence[str]) -> int:
    """``kubectl fluence select``."""
    arguments = parse(words)
    if _helped("select", arguments):
        return 0
    for unknown in (*arguments.foreign, *arguments.words):
        raise UsageError(f'select doesn\'t know "{unknown}"; see kubectl fluence select --help')
    if not arguments.files and not arguments.kustomize:
        raise UsageError("no -f/--filename given")
    _print(_resolved(arguments))
    return 0


def _submit(verb: str, words: Sequence[str]) -> int:
    arguments = parse(words)
    if _helped(verb, arguments):
        return 0
    if not arguments.files and not arguments.kustomize:
        if not arguments.words:
            raise UsageError("no -f/--filename given")
        # kubectl create deployment ..., kubectl apply view-last-applied ...: nothing there to choose for.
        return run_kubectl([verb, *_dry_run(arguments), *arguments.forwarded])
    kubectl_program()
    manifest = _resolved(arguments)
    if arguments.dry_run != "none":
        if not any(word.startswith(("-o", "--output")) for word in arguments.forwarded):
            # What kubectl says follows.
            _print(manifest if manifest.endswith(b"\n") else manifest + b"\n")
    elif "confirm" in arguments.switches and not confirmed(QUESTION, STDIN in arguments.files):
        tell("cancelled; nothing applied")
        return 0
    return run_kubectl([verb, "-f", STDIN, *_dry_run(arguments), *arguments.forwarded], manifest)


def _dry_run(arguments: Arguments) -> list[str]:
    return [] if arguments.dry_run == "none" else [f"--dry-run={arguments.dry_run}"]


def _resolved(arguments: Arguments) -> bytes:
    """The whole manifest with its pins, after telling what was chosen and why."""
    knowledge = Knowledge(arguments)
    force = "force-select" in arguments.switches
    now = datetime.now(UTC)
    done = [resolve(source, knowledge.choose, force, now) for source in read_sources(arguments)]
    for one in done:
        _report(one)
    return joined([one.content for one in done])


def _report(one: Resolved) -> None:
    for note in one.notes:
        tell_note(note)
    for label, selection in one.selections:
        for note in selection.notes:
            if not note.startswith("could not read"):
                tell_note(f"{label}: {note}")
        tell(
            f'selected backend "{selection.chosen}" for {label} (policy "{selection.request.policy}")', GREEN
        )
        for name in sorted(selection.dropped):
            tell(f"  dropped {name}: {selection.dropped[name]}", DIM)


def _print(manifest: bytes) -> None:
    sys.stdout.flush()
    # With PYTHONUNBUFFERED this is a raw stream, which may take a part only.
    rest = memoryview(manifest)
    while rest:
        rest = rest[sys.stdout.buffer.write(rest) :]
    sys.stdout.buffer.flush()


def _helped(verb: str, arguments: Arguments) -> bool:
    if "help" not in arguments.switches:
        return False
    explained = command(verb)
    assert explained is not None
    print(explained.usage, end="")
    return True
