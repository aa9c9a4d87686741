"""The operations of a draft lead from the pod to the draft, and the pod itself isn't changed."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.webhook.draft import Draft

Json = dict[str, Any]

NAMES = st.sampled_from(["a", "b/c", "d~e", "~1"])
VALUES = st.recursive(
    st.none() | st.integers(0, 3) | NAMES,
    lambda inner: st.dictionaries(NAMES, inner, max_size=2) | st.lists(inner, max_size=2),
    max_leaves=5,
)
ITEMS = st.dictionaries(NAMES, st.dictionaries(NAMES, VALUES, max_size=2) | st.none(), max_size=3)
PODS = st.builds(
    lambda spec, items: {"spec": {**spec, **({"items": items} if items is not None else {})}},
    st.dictionaries(NAMES, st.dictionaries(NAMES, VALUES, max_size=2) | st.none(), max_size=3),
    st.none() | st.lists(ITEMS, max_size=3),
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "insert", "remove"]), NAMES, NAMES, VALUES, st.integers(0, 3), st.booleans()
    ),
    max_size=8,
)


@given(PODS, STEPS)
def test_operations_lead_from_the_pod_to_its_draft(pod: Json, steps: list[Any]) -> None:
    before = copy.deepcopy(pod)
    given_values = [copy.deepcopy(step[3]) for step in steps]
    draft = Draft(pod)
    for verb, outer, inner, value, index, within in steps:
        items = draft.get("spec", "items") or []
        holder = ("spec", "items", index) if within and index < len(items) else ("spec",)
        _step(draft, verb, holder, outer, inner, value, index)
    assert pod == before
    assert [step[3] for step in steps] == given_values
    written = msgspec.json.encode(draft.operations).decode()
    assert jsonpatch.apply_patch(pod, written) == draft.object


def _step(
    draft: Draft, verb: str, holder: tuple[str | int, ...], outer: str, inner: str, value: Any, index: int
) -> None:
    if verb == "insert":
        there = draft.get("spec", "items") or []
        draft.insert(
            "spec",
            "items",
            values=[{outer: {inner: value}}] * 2,
            at=min(index, len(there)) if index else None,
        )
    elif verb == "remove" and outer in draft.get(*holder):
        draft.remove(*holder, outer)
    elif verb == "put":
        draft.put(*holder, outer, inner, value=value)
