"""Values by key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.model.multimap import Multimap

changes = st.lists(st.tuples(st.booleans(), st.integers(0, 2), st.sampled_from("abc")), max_size=30)


@given(changes)
def test_multimap_has_what_a_dict_of_sets_would_have(history: list[tuple[bool, int, str]]) -> None:
    plain: dict[int, set[str]] = {}
    multimap: Multimap[int, str] = Multimap()
    for there, key, value in history:
        values = plain.setdefault(key, set())
        (values.add if there else values.discard)(value)
        (multimap.add if there else multimap.discard)(key, value)
        assert {one: set(multimap.of(one)) for one in plain} == plain
        assert len(multimap) == sum(map(bool, plain.values()))
