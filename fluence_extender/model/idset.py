"""Sets of ids as RFC 22 writes them: ``0-3,7``.

Invariant: the text is canonical: ascending, no overlap, runs of two or more joined with a dash.
"""

from __future__ import annotations

from collections.abc import Iterable


def encode_idset(ids: Iterable[int]) -> str:
    """Write a set of non-negative integers as an RFC 22 idset; the empty set is the empty text.

    Raises `ValueError` for a negative id.
    """
    runs: list[tuple[int, int]] = []
    for one in sorted(set(ids)):
        if one < 0:
            raise ValueError(f"an idset holds no negative ids, such as {one}")
        if runs and runs[-1][1] == one - 1:
            runs[-1] = (runs[-1][0], one)
        else:
            runs.append((one, one))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
