"""Compile and control the stand-in for libreapi_cli (``stub.c``)."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("stub.c")


def compile_library(target: Path, *flags: str, source: Path = SOURCE) -> Path:
    """Build a shared library from ``source``; fail the test if there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.fail("these tests compile a small C library: install a C compiler (gcc)")
    target.parent.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-std=gnu11", "-O1", "-fPIC", "-shared", "-o", str(target), str(source), *flags]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return target


class Stub:
    """The controls of the stand-in at ``path``: what it was asked, and what it has to answer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._c = ctypes.CDLL(str(path))
        self._c.stub_last_call.restype = ctypes.c_char_p
        self._c.stub_error_text.restype = ctypes.c_char_p
        self.reset()

    def reset(self) -> None:
        self._c.stub_reset()

    def fail(self, errno: int, text: str = "", *, hands_out: bool = False) -> None:
        """Have the next call fail."""
        self._c.stub_fail(-1, errno, text.encode(), hands_out)

    def murmur(self, text: str) -> None:
        """Have the next call succeed and leave an error text."""
        self._c.stub_murmur(text.encode())

    def leave_errno(self, errno: int) -> None:
        """Have the next call succeed and leave an errno."""
        self._c.stub_leave_errno(errno)

    def give(
        self,
        *,
        jobid: int = 7,
        flag: bool = True,
        at: int = 42,
        overhead: float = 0.5,
        status: int = 1,
        string: str | None = "text",
    ) -> None:
        """Set what successful calls return from now on."""
        text = None if string is None else string.encode()
        self._c.stub_give(
            ctypes.c_uint64(jobid),
            ctypes.c_bool(flag),
            ctypes.c_int64(at),
            ctypes.c_double(overhead),
            ctypes.c_int(status),
            text,
        )

    def hand_out_raw(self) -> None:
        """Take a string and don't free it."""
        self._c.reapi_cli_get_err_msg(None)

    def refuse_context(self) -> None:
        self._c.stub_refuse_context()

    def delay(self, microseconds: int) -> None:
        """Have every call take so many seconds."""
        self._c.stub_delay(microseconds)

    @property
    def last_call(self) -> list[str]:
        """Return the last call: its name and context number, then its arguments as text."""
        text: bytes = self._c.stub_last_call()
        return text.decode().split("|")

    @property
    def error_text(self) -> str:
        text: bytes = self._c.stub_error_text()
        return text.decode()

    @property
    def calls(self) -> int:
        return int(self._c.stub_calls())

    @property
    def errno_seen(self) -> int:
        """Return the errno that was set when the last call began."""
        return int(self._c.stub_errno_seen())

    @property
    def contexts(self) -> int:
        """Return how many contexts were made and not destroyed."""
        return int(self._c.stub_contexts())

    @property
    def overlaps(self) -> int:
        return int(self._c.stub_overlaps())

    @property
    def handed_out(self) -> int:
        return int(self._c.stub_handed_out())

    @property
    def outstanding(self) -> int:
        """Return how many strings were handed out and not freed; it works only if WATCH_FREE preloads the stand-in."""
        return int(self._c.stub_outstanding())
