"""Compiling and steering the stand-in for libreapi_cli (``stub.c``)."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("stub.c")


def compile_library(target: Path, *flags: str, source: Path = SOURCE) -> Path:
    """Build a shared library from ``source``; fails the test where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.fail("these tests compile a small C library: install a C compiler (gcc)")
    target.parent.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-std=gnu11", "-O1", "-fPIC", "-shared", "-o", str(target), str(source), *flags]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return target


class Stub:
    """The stand-in at ``path``, seen from the other side: what it was asked, and what it is to answer."""

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
        """Have the next call succeed, leaving error text behind."""
        self._c.stub_murmur(text.encode())

    def leave_errno(self, errno: int) -> None:
        """Have the next call succeed, leaving an errno behind."""
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
        """Set what successful calls give from now on."""
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
        """Take a string as a caller would that doesn't free it."""
        self._c.reapi_cli_get_err_msg(None)

    def refuse_context(self) -> None:
        self._c.stub_refuse_context()

    def delay(self, microseconds: int) -> None:
        """Have every call take that long."""
        self._c.stub_delay(microseconds)

    @property
    def last_call(self) -> list[str]:
        """The last call: name and context number, then the arguments as text."""
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
        """errno as the last call found it."""
        return int(self._c.stub_errno_seen())

    @property
    def contexts(self) -> int:
        """Contexts made and not destroyed."""
        return int(self._c.stub_contexts())

    @property
    def overlaps(self) -> int:
        return int(self._c.stub_overlaps())

    @property
    def handed_out(self) -> int:
        return int(self._c.stub_handed_out())

    @property
    def outstanding(self) -> int:
        """Strings handed out and not freed; only where the stand-in is preloaded with WATCH_FREE."""
        return int(self._c.stub_outstanding())
