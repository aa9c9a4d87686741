"""An overlay is a dictionary whose forks don't see each other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.matcher.counted.overlay import Overlay

STEPS = st.lists(
    st.tuples(st.sampled_from(["set", "set", "pop", "fork"]), st.integers(0, 300), st.integers(0, 5)),
    max_size=400,
)


@given(STEPS)
def test_forks_of_an_overlay_are_dictionaries_of_their_own(steps: list[tuple[str, int, int]]) -> None:
    overlays: list[tuple[Overlay[int, int], dict[int, int]]] = [(Overlay(), {})]
    for step, key, place in steps:
        overlay, expected = overlays[place % len(overlays)]
        if step == "set":
            overlay[key] = expected[key] = place
        elif step == "pop":
            assert overlay.pop(key, None) == expected.pop(key, None)
        elif len(overlays) < 4:
            overlays.append((overlay.fork(), dict(expected)))
    for overlay, expected in overlays:
        assert dict(overlay) == expected
        assert len(overlay) == len(expected)


def test_a_fork_of_many_entries_copies_few() -> None:
    overlay: Overlay[int, int] = Overlay()
    for key in range(10_000):
        overlay[key] = key
    overlay.fork()
    overlay[5] = -1
    fork = overlay.fork()
    overlay[6] = -2
    assert (fork[5], fork[6], overlay[6]) == (-1, 6, -2)
    assert len(fork) == len(overlay) == 10_000
