"""Entry point of ``kubectl-fluence``. Modules beyond this one and the table of commands are imported when needed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fluence_extender import __version__
from fluence_extender.apps.kubectl.commands import COMMANDS, command, overview
from fluence_extender.apps.kubectl.errors import CommandError

_HELP = ("-h", "--help")
_SYNONYMS = {"gang": ["jobs"], "gangs": ["jobs"], "nodes": ["top"], "queue": ["jobs"]}
"""What others call the commands."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; ``argv`` are the words after ``kubectl fluence``."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except CommandError as error:
        _fail(str(error))
        return error.code
    except BrokenPipeError:
        # Whoever read our output has had enough; Python would complain again when it closes the stream.
        sys.stdout = None
        return 141
    except KeyboardInterrupt:
        return 130


def version(words: Sequence[str]) -> int:
    """``kubectl fluence version``."""
    if not _asked_for_help("version", words):
        print(f"kubectl-fluence {__version__}")
    return 0


def show_help(words: Sequence[str]) -> int:
    """``kubectl fluence help [COMMAND]``."""
    name = next((word for word in words if not word.startswith("-")), None)
    if name is None and not _asked_for_help("help", words):
        print(overview(), end="")
    if name is None:
        return 0
    found = command(name)
    if found is None:
        return _unknown(name)
    print(found.usage, end="")
    return 0


def _run(words: list[str]) -> int:
    if not words:
        print(overview(), end="", file=sys.stderr)
        return 2
    name = words[0]
    if name.startswith("-") and name not in _HELP:
        from fluence_extender.apps.kubectl.arguments import verb_first

        words = verb_first(words)
        name = words[0] if words else ""
    if name in _HELP or (name.startswith("-") and any(word in _HELP for word in words)):
        return show_help(())
    found = command(name)
    if found is None:
        return _unknown(name)
    if not found.forwards and _asked_for_help(name, words[1:]):
        return 0
    return found.load()(words[1:])


def _asked_for_help(name: str, words: Sequence[str]) -> bool:
    asked = any(word in _HELP for word in words)
    if asked:
        show_help((name,))
    return asked


def _unknown(name: str) -> int:
    from difflib import get_close_matches

    close = _SYNONYMS.get(name) or get_close_matches(name, [one.name for one in COMMANDS], n=1)
    _fail(f'unknown command "{name}"' + (f'; did you mean "{close[0]}"?' if close else ""))
    print(overview(), end="", file=sys.stderr)
    return 2


def _fail(message: str) -> None:
    from fluence_extender.apps.kubectl.terminal import tell_error

    tell_error(message)


if __name__ == "__main__":
    sys.exit(main())
