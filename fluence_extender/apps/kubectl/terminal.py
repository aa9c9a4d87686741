"""Messages for the user, all on stderr: colored on a terminal only; questions are asked on the terminal itself."""

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


def colored(stream: TextIO) -> bool:
    """Return whether ``stream`` is a terminal that shows colors and the user wants them (https://no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def painted(text: str, style: str, stream: TextIO) -> str:
    """Return ``text`` in a color if ``stream`` takes colors."""
    return f"\033[{style}m{text}\033[0m" if style and colored(stream) else text


def tell(message: str, style: str = "") -> None:
    """Print a message."""
    print(painted(message, style, sys.stderr), file=sys.stderr, flush=True)


def tell_error(message: str) -> None:
    """Print why the command ends; each line is marked as an error."""
    for line in message.splitlines() or [""]:
        tell(f"error: {line}", RED)


def tell_note(message: str) -> None:
    """Print what may matter to the user."""
    tell(f"note: {message}", YELLOW)


def confirmed(question: str, stdin_is_taken: bool) -> bool:
    """Ask ``question`` and return whether the answer is y or yes; an empty answer is a no.

    It is asked on standard input, or on the terminal if the manifest came from standard input. Raise `CommandError` if
    there is no terminal then.
    """
    if not stdin_is_taken:
        return _ask(question, sys.stdin, sys.stderr)
    try:
        with open(TERMINAL, encoding="utf-8") as source, open(TERMINAL, "w", encoding="utf-8") as screen:
            return _ask(question, source, screen)
    except OSError:
        raise CommandError(
            "--confirm has nobody to ask: the manifest came from standard input and there is no terminal;"
            " give a file with -f, or leave --confirm out"
        ) from None


def _ask(question: str, source: TextIO, screen: TextIO) -> bool:
    print(question, end="", file=screen, flush=True)
    answer = source.readline()
    if not answer.endswith("\n"):
        print(file=screen)
    return answer.strip().lower() in ("y", "yes")


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """Print ``text`` once the block has taken a second, on a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from threading import Timer

    timer = Timer(_PATIENCE, tell, (f"{text} ...", DIM))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
