"""The only importer of cffi: the declarations, and the ``free`` for what the library allocates.

ABI mode, so that installing needs no compiler. A declaration costs nothing until its symbol is looked up.
"""

from __future__ import annotations

from typing import Any

from cffi import FFI

from fluxion_ffi.features import CORE, OF_FEATURE, TYPES

ffi: Any = FFI()
ffi.cdef(TYPES + CORE + "".join(OF_FEATURE.values()))

process: Any = ffi.dlopen(None)
"""The symbols of this process, libc's among them: the library's strings come from its malloc."""


class OutString:
    """A ``char *`` that the library fills by malloc; leaving the ``with`` block always frees it.

    It starts as NULL because the library leaves it untouched on failure.
    """

    __slots__ = ("pointer",)

    def __init__(self, ctype: str = "char *[1]") -> None:
        self.pointer: Any = ffi.new(ctype)

    def __enter__(self) -> OutString:
        return self

    def __exit__(self, *_exc: object) -> None:
        process.free(self.pointer[0])
        self.pointer[0] = ffi.NULL

    def text(self) -> str | None:
        """Return the string, None for NULL."""
        if self.pointer[0] == ffi.NULL:
            return None
        return decode(self.pointer[0])


def decode(pointer: Any) -> str:
    """Copy a C string; bytes that aren't UTF-8 are escaped."""
    raw: bytes = ffi.string(pointer)
    return raw.decode("utf-8", errors="backslashreplace")
