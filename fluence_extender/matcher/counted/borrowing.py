"""Copies that cost what is changed afterwards: a fork borrows, and copies what it comes to write to.

Invariant: whoever has a name in ``borrowed`` may share that attribute with others and doesn't write to it.
"""

from __future__ import annotations

from typing import ClassVar, Self


class Borrower:
    """An object whose attributes named in ``WRITTEN`` (containers with a ``copy`` method) are copied on write."""

    WRITTEN: ClassVar[tuple[str, ...]] = ()
    KEPT: ClassVar[tuple[str, ...]] = ()
    """The other attributes, which a fork takes as they are."""

    __slots__ = ("borrowed",)

    def __init__(self) -> None:
        self.borrowed: set[str] = set()

    def fork(self) -> Self:
        """An independent copy; both borrow from now on."""
        copy = self.__class__.__new__(self.__class__)
        for name in (*self.WRITTEN, *self.KEPT):
            setattr(copy, name, getattr(self, name))
        self.borrowed = set(self.WRITTEN)
        copy.borrowed = set(self.WRITTEN)
        return copy

    def own(self, *names: str) -> None:
        """Make the attributes this object's alone; call it before writing to them."""
        if self.borrowed:
            for name in self.borrowed.intersection(names):
                setattr(self, name, getattr(self, name).copy())
                self.borrowed.remove(name)

    def own_all(self) -> None:
        """Make all attributes this object's alone."""
        self.own(*self.WRITTEN)
