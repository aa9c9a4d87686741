"""Test programs in place of ``kubectl`` and ``aws``, and the result of a command."""

from __future__ import annotations

import io
import marshal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ATTRIBUTES = """
backends:
  - name: gpu-a100
    attributes: {cost_usd: 3.20, memory_gb: 80}
  - name: gpu-l4
    attributes: {cost_usd: 0.80, memory_gb: 24}
  - name: gpu-t4
    attributes: {cost_usd: 0.35, memory_gb: 16}
"""

# Hundreds of these are run, so it imports only modules that Python loads anyway.
_PROGRAM = """#!{python} -ISE
import marshal, sys
here = {folder!r}
words = sys.argv[1:]
reads = {reads}
with open(here + "/calls", "ab") as calls:
    calls.write(marshal.dumps(words))
with open(here + "/answers", "rb") as answers:
    answers = marshal.load(answers)
for part, answer in sorted(answers.items(), key=lambda one: -len(one[0])):
    if part in " ".join(words):
        print(answer.get("out", ""), end="")
        print(answer.get("err", ""), end="", file=sys.stderr)
        sys.exit(answer.get("code", 0))
if reads and "-" in words:
    with open(here + "/manifest", "wb") as manifest:
        manifest.write(sys.stdin.buffer.read())
print("ran", *words[:1])
"""


class Program:
    """A program on the PATH that records its calls and gives prepared answers."""

    def __init__(self, name: str, programs: Path, folder: Path) -> None:
        self._folder = folder / name
        self._folder.mkdir()
        self._answers: dict[str, dict[str, Any]] = {}
        self._save()
        script = programs / name
        script.write_text(
            _PROGRAM.format(python=sys.executable, folder=str(self._folder), reads=name == "kubectl")
        )
        script.chmod(0o755)

    def answers(self, to: str, out: str = "", err: str = "", code: int = 0) -> None:
        """Prepare the answer to calls whose words contain ``to``; of several answers the most exact one counts."""
        self._answers[to] = {"out": out, "err": err, "code": code}
        self._save()

    @property
    def calls(self) -> list[list[str]]:
        """The words of each call so far, in order."""
        file = self._folder / "calls"
        content = io.BytesIO(file.read_bytes() if file.exists() else b"")
        found: list[list[str]] = []
        while content.tell() < len(content.getbuffer()):
            found.append(marshal.load(content))
        return found

    @property
    def manifest(self) -> bytes | None:
        """The content of kubectl's standard input, None if nothing was submitted."""
        file = self._folder / "manifest"
        return file.read_bytes() if file.exists() else None

    def _save(self) -> None:
        (self._folder / "answers").write_bytes(marshal.dumps(self._answers))


@dataclass(frozen=True)
class Ended:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


Fluence = Callable[..., Ended]
