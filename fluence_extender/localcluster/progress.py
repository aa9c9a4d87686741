"""Show that a long step is running: a spinner on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from rich.console import Console


class Progress(Protocol):
    """Receives the steps of a long operation."""

    def step(self, text: str) -> AbstractContextManager[None]:
        """Report that the step ``text`` runs while the context is open."""

    def note(self, text: str) -> None:
        """Report a single fact."""


class Silent:
    """A `Progress` that shows nothing."""

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        yield

    def note(self, text: str) -> None:
        pass


class ConsoleProgress:
    """A `Progress` on a rich console: one line for each step with its duration, and a spinner on a real terminal."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        begun = time.monotonic()
        if self._console.is_terminal:
            with self._console.status(text):
                yield
        else:
            self.note(f"{text} ...")
            yield
        self.note(f"{text}: done in {time.monotonic() - begun:.0f} s")

    def note(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)
