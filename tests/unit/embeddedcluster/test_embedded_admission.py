"""What is admitted is what an API server would store: checked against a library for JSON Patch."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.embeddedcluster.admission import admit, patched
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.model.names import GATE, MARK_RESOURCE
from fluence_extender.webhook.contract import Operation

NAMES = st.sampled_from(["a", "b", "c/d", "e~f", "0"])
LEAVES = st.integers(0, 3) | st.sampled_from(["x", "y"])
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def pointer(path: list[str]) -> str:
    return "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in path)


def _nested(holder: Any) -> list[Any]:
    """The indexes or names of what can be gone into."""
    items = enumerate(holder) if isinstance(holder, list) else holder.items()
    return [step for step, one in items if isinstance(one, dict | list)]


@st.composite
def operations(draw: st.DrawFn, document: Any) -> Operation:
    """An operation that fits the document."""
    path: list[str] = []
    holder = document
    while _nested(holder):
        go_on: bool = draw(st.booleans())
        if not go_on:
            break
        step = draw(st.sampled_from(_nested(holder)))
        path.append(str(step))
        holder = holder[step]
    keys = [str(at) for at in range(len(holder))] if isinstance(holder, list) else list(holder)
    if draw(st.booleans()) and keys:
        key = draw(st.sampled_from(keys))
        if draw(st.booleans()):
            return Operation("remove", pointer([*path, key]))
        return Operation("replace", pointer([*path, key]), draw(VALUES))
    key = draw(st.sampled_from([*keys, "-"])) if isinstance(holder, list) else draw(NAMES)
    return Operation("add", pointer([*path, key]), draw(VALUES))


@given(st.dictionaries(NAMES, VALUES, max_size=4), st.data())
def test_patch_means_what_the_library_says(document: dict[str, Any], data: st.DataObject) -> None:
    now = copy.deepcopy(document)
    patch = []
    for _ in range(data.draw(st.integers(0, 4))):
        patch.append(data.draw(operations(now)))
        now = jsonpatch.apply_patch(now, [msgspec.to_builtins(patch[-1])])
    before = copy.deepcopy(document)
    assert patched(document, patch) == now
    assert document == before


def test_pod_of_ours_gets_its_gate_and_its_mark() -> None:
    resources = parse_resources("resources: [{type: qpu, name: fez, count: 1}]")
    requests = {"cpu": "1", "fluxion.flux-framework.org/qpu": "1"}
    pod: dict[str, Any] = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "schedulerName": "fluence",
            "containers": [{"name": "main", "resources": {"requests": requests}}],
        },
    }
    admitted = admit(pod, resources)
    assert admitted["spec"]["schedulingGates"] == [{"name": GATE}]
    assert admitted["spec"]["containers"][0]["resources"]["requests"][MARK_RESOURCE] == "1"
    assert "schedulingGates" not in pod["spec"]


def test_pod_of_another_scheduler_stays_as_it_is() -> None:
    pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [{"name": "main"}]}}
    assert admit(pod, parse_resources("")) == pod
