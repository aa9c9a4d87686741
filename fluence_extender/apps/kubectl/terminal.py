"""Talking to whoever sits there: all of it on stderr, coloured on a terminal only, questions on the terminal itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from fluence_extender.apps.kubectl.errors import CommandError

RED, GREEN, YELLOW, DIM = "31", "32", "33", "2"
TERMINAL = "/dev/tty"
_PATIENCE = 1.0
"""Seconds before a wait is explained."""


def coloured(stream: TextIO) -> bool:
    """Whether colours are welcome: a terminal that knows them, and no NO_COLOR (https://no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def painted(text: str, style: str, stream: TextIO) -> str:
    """``text`` in a colour, where ``stream`` welcomes it."""
    return f"\033[{style}m{text}\033[0m" if style and coloured(stream) else text


def tell(message: str, style: str = "") -> None:
    """Say something on stderr."""
    print(painted(message, style, sys.stderr), file=sys.stderr, flush=True)


def tell_error(message: str) -> None:
    """Say why it ends."""
    head, *rest = message.splitlines() or [""]
    tell(f"error: {head}", RED)
    for line in rest:
        tell(f"error: {line}", RED)


def tell_note(message: str) -> None:
    """Say what may matter."""
    tell(f"note: {message}", YELLOW)


def confirmed(question: str, stdin_is_taken: bool) -> bool:
    """Whether ``question`` is answered with y or yes; no answer at all is a no.

    It is asked on standard input, unless the manifest came from there: then on the terminal. Raises `CommandError`
    where there is none.
    """
    if not stdin_is_taken:
        return _answer(question, sys.stdin, sys.stderr)
    try:
        with open(TERMINAL, encoding="utf-8") as reading, open(TERMINAL, "w", encoding="utf-8") as writing:
            return _answer(question, reading, writing)
    except OSError:
        raise CommandError(
            "--confirm has nobody to ask: the manifest came from standard input and there is no terminal;"
            " give a file with -f, or leave --confirm out"
        ) from None


def _answer(question: str, source: TextIO, shown: TextIO) -> bool:
    print(question, end="", file=shown, flush=True)
    answer = source.readline()
    if not answer.endswith("\n"):
        print(file=shown)
    return answer.strip().lower() in ("y", "yes")


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Say what is waited for once it has taken a second, on a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from threading import Timer

    timer = Timer(_PATIENCE, tell, (f"{what} ...", DIM))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
