"""libstdc++'s std::sort, step for step.

libreapi_cli sorts candidates by score with std::sort, which isn't stable: where scores tie, the algorithm itself
decides which candidate comes first, and so which nodes a job gets. Up to 16 elements it is an
insertion sort, which is stable; above that it is introsort, whose moves are repeated here. Invariant: the result is
what GCC's std::sort leaves when it compares nothing but the keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_THRESHOLD = 16


def std_sorted(keys: Sequence[int], items: list[T]) -> list[T]:
    """Return ``items`` in the order that std::sort gives them, ascending by their ``keys``."""
    size = len(items)
    if size <= _THRESHOLD or len(set(keys)) == size:
        return [items[index] for index in sorted(range(size), key=keys.__getitem__)]
    cells = list(zip(keys, items, strict=True))
    _introsort(cells, 0, size, 2 * (size.bit_length() - 1))
    return [item for _, item in _insertion_sorted(cells)]


def _introsort(cells: list[tuple[int, T]], first: int, last: int, depth: int) -> None:
    while last - first > _THRESHOLD:
        if depth == 0:
            _heap_sort(cells, first, last)
            return
        depth -= 1
        cut = _partition(cells, first, last)
        _introsort(cells, cut, last, depth)
        last = cut


def _partition(cells: list[tuple[int, T]], first: int, last: int) -> int:
    middle = _median(cells, first + 1, first + (last - first) // 2, last - 1)
    cells[first], cells[middle] = cells[middle], cells[first]
    pivot = cells[first][0]
    left = first + 1
    right = last
    while True:
        while cells[left][0] < pivot:
            left += 1
        right -= 1
        while pivot < cells[right][0]:
            right -= 1
        if left >= right:
            return left
        cells[left], cells[right] = cells[right], cells[left]
        left += 1


def _median(cells: list[tuple[int, T]], a: int, b: int, c: int) -> int:
    if cells[a][0] < cells[b][0]:
        if cells[b][0] < cells[c][0]:
            return b
        return c if cells[a][0] < cells[c][0] else a
    if cells[a][0] < cells[c][0]:
        return a
    return c if cells[b][0] < cells[c][0] else b


def _insertion_sorted(cells: list[tuple[int, T]]) -> list[tuple[int, T]]:
    """The last pass: an insertion sort, which any stable sort of the whole equals."""
    return sorted(cells, key=_key)


def _key(cell: tuple[int, T]) -> int:
    return cell[0]


def _heap_sort(cells: list[tuple[int, T]], first: int, last: int) -> None:
    """std::partial_sort over the whole range: make a heap, then pop it empty."""
    size = last - first
    for parent in range((size - 2) // 2, -1, -1):
        _sift(cells, first, parent, size, cells[first + parent])
    for end in range(last - 1, first, -1):
        value = cells[end]
        cells[end] = cells[first]
        _sift(cells, first, 0, end - first, value)


def _sift(cells: list[tuple[int, T]], first: int, hole: int, size: int, value: tuple[int, T]) -> None:
    """Move the hole down to a leaf along the larger children, then push ``value`` up from there."""
    top = hole
    child = hole
    while child < (size - 1) // 2:
        child = 2 * (child + 1)
        if cells[first + child][0] < cells[first + child - 1][0]:
            child -= 1
        cells[first + hole] = cells[first + child]
        hole = child
    if size % 2 == 0 and child == (size - 2) // 2:
        child = 2 * (child + 1)
        cells[first + hole] = cells[first + child - 1]
        hole = child - 1
    parent = (hole - 1) // 2
    while hole > top and cells[first + parent][0] < value[0]:
        cells[first + hole] = cells[first + parent]
        hole = parent
        parent = (hole - 1) // 2
    cells[first + hole] = value
