"""How long steps of a set-up take, shown while they run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console

LINE_SECONDS = 30.0
"""How often a step says how far it is where its lines stay, as in the log of a pipeline."""


@contextmanager
def step(text: str, console: Console | None = None) -> Iterator[Callable[[str], None]]:
    """Show that the step ``text`` runs while the context is open, and then how long it took.

    The context is a function that takes how far the step is. All this is a spinner where ``console`` (default: stderr)
    is a terminal, and a line now and then elsewhere.
    """
    console = console or Console(stderr=True, highlight=False)
    begun = printed = time.monotonic()

    def tell(how_far: str) -> None:
        nonlocal printed
        now = time.monotonic()
        line = f"{text}: {how_far}, {now - begun:.0f} s"
        if spinner is not None:
            spinner.update(line)
        elif now - printed >= LINE_SECONDS:
            printed = now
            console.print(line, markup=False, soft_wrap=True)

    if not console.is_terminal:
        console.print(f"{text} ...", markup=False, soft_wrap=True)
    with console.status(text) if console.is_terminal else nullcontext() as spinner:
        yield tell
    console.print(f"{text}: done in {time.monotonic() - begun:.0f} s", markup=False, soft_wrap=True)
