"""What happened, in order and with times, so that a violation can be understood from what came just before it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Story:
    """Lines with the seconds since the beginning; with ``aloud`` each is also printed at once."""

    aloud: bool = True
    began: float = field(default_factory=time.monotonic)
    lines: list[str] = field(default_factory=list)

    def tell(self, text: str) -> None:
        """Add a line."""
        line = f"{time.monotonic() - self.began:8.2f}  {text}"
        self.lines.append(line)
        if self.aloud:
            print(line, flush=True)

    def since(self, mark: int) -> list[str]:
        """Return the lines from number ``mark`` on."""
        return self.lines[mark:]
