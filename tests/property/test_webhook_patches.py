"""The patch of any pod applies, breaks nothing, changes nothing else, and is made once."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.webhook.containers import is_own
from fluence_extender.webhook.contract import AdmissionRequest, Context, GroupKind, OwnedPods
from fluence_extender.webhook.handlers import HANDLERS
from fluence_extender.webhook.limit_ranges import ContainerBound
from fluence_extender.webhook.mutate import mutate
from fluence_extender.webhook.validity import shape_fault
from tests.property.pod_validation import faults
from tests.unit.webhook.pods import RESOURCES, applied

Json = dict[str, Any]

PREFIX = "fluence.flux-framework.org/"
GROUPS = st.sampled_from(["g", "a.b", "G_x", "g-producer", "x" * 54, "x" * 63])
TEXTS = st.text("ab/:$()~,.-_ é", max_size=12)
RESOURCE = st.sampled_from(
    ["cpu", "nvidia.com/gpu", *(f"fluxion.flux-framework.org/{x}" for x in ("qpu", "qubit"))]
)
QUANTITY = st.sampled_from(["0", "1", "2", "1500m"])
VARIABLES = st.sampled_from(["PYTHONPATH", "FLUXION_BACKEND", "FLUENCE_POD_UID", "A", "B"])
GATES = st.sampled_from(["example.com/a", f"{PREFIX}gang", "quantum.braket/ready"])
MOUNTS = st.sampled_from(["/opt/fluence-staged", "/data", "/var/run/secrets/kubernetes.io/serviceaccount"])
VOLUMES = st.sampled_from(["data", "fluence-pkg", "fluence-token"])
NAMES = st.sampled_from(["app", "other", "prepare", "fluence-stage", "fluence-sidecar"])


def some(**optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """An object with any of these fields."""
    return st.fixed_dictionaries({}, optional=optional)


def keyed(**optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """The same, keys under our domain."""
    return st.fixed_dictionaries(
        {}, optional={f"{PREFIX}{k.replace('_', '-')}": v for k, v in optional.items()}
    )


SOURCES = st.sampled_from(
    [
        {"secretKeyRef": {"name": "s", "key": "k"}},
        {"configMapKeyRef": {"name": "c", "key": "k"}},
        {"fieldRef": {}},
    ]
)
ENV = st.lists(
    st.one_of(
        st.builds(lambda name, value: {"name": name, "value": value}, VARIABLES, TEXTS),
        st.builds(lambda name, source: {"name": name, "valueFrom": source}, VARIABLES, SOURCES),
    ),
    max_size=3,
)
RESOURCES_OF = st.builds(
    lambda both, limits: {"requests": both, "limits": {**limits, **both}},
    st.dictionaries(RESOURCE, QUANTITY, max_size=2),
    st.dictionaries(RESOURCE, QUANTITY, max_size=1),
)
CONTAINERS = st.fixed_dictionaries(
    {"name": NAMES},
    optional={
        "env": ENV,
        "resources": RESOURCES_OF,
        "volumeMounts": st.lists(
            st.builds(lambda name, path: {"name": name, "mountPath": path}, VOLUMES, MOUNTS), max_size=2
        ),
        "envFrom": st.lists(
            st.sampled_from([{"secretRef": {"name": "s"}}, {"configMapRef": {"name": "c"}}]), max_size=2
        ),
        "restartPolicy": st.just("Always"),
        "tty": st.booleans(),
    },
)
LABELS = st.builds(
    lambda ours, others: {**ours, **others},
    keyed(group=GROUPS, observe=st.sampled_from(["true", "yes", ""])),
    st.dictionaries(st.sampled_from(["app", "scheduling.x-k8s.io/pod-group"]), GROUPS, max_size=2),
)
ANNOTATIONS = st.builds(
    lambda ours, index: {**ours, **index},
    keyed(
        coordination=st.sampled_from(["shared", "independent", "other"]),
        group_size=st.sampled_from(["1", "2", "5", "x"]),
        coordination_role=st.sampled_from(["producer", "consumer", "boss"]),
        depends_on_producer=st.just("g-producer"),
    ),
    st.fixed_dictionaries(
        {}, optional={"batch.kubernetes.io/job-completion-index": st.sampled_from(["0", "1"])}
    ),
)
METADATA = some(
    name=st.just("p"),
    labels=LABELS,
    annotations=ANNOTATIONS,
    ownerReferences=st.lists(
        st.builds(
            lambda kind: {"kind": kind, "name": "o", "uid": "u", "controller": True},
            st.sampled_from(["Job", "ReplicaSet", "StatefulSet", "Other"]),
        ),
        max_size=1,
    ),
)
PODS = st.builds(
    lambda metadata, spec: {"metadata": metadata, "spec": spec},
    METADATA,
    st.fixed_dictionaries(
        {"schedulerName": st.just("fluence"), "containers": st.lists(CONTAINERS, min_size=1, max_size=3)},
        optional={
            "initContainers": st.lists(CONTAINERS, max_size=2),
            "volumes": st.lists(st.builds(lambda name: {"name": name, "emptyDir": {}}, VOLUMES), max_size=2),
            "schedulingGates": st.lists(GATES.map(lambda name: {"name": name}), max_size=2),
            "schedulingGroup": st.builds(lambda name: {"podGroupName": name}, GROUPS),
            "nodeName": st.just("n1"),
            "priorityClassName": st.just("mine"),
            "priority": st.integers(0, 5),
            "serviceAccountName": st.sampled_from(["default", "mine", "fluence-sidecar"]),
            "hostNetwork": st.booleans(),
            "os": st.sampled_from([{"name": "linux"}, {"name": "windows"}]),
        },
    ),
)
CONTEXTS = st.builds(
    Context,
    resources=st.sampled_from([None, RESOURCES]),
    groups=st.sampled_from(GroupKind),
    priority_class=st.booleans(),
)
REQUESTS = st.builds(
    AdmissionRequest,
    namespace=st.just("ns"),
    dry_run=st.booleans(),
    produces=st.sampled_from([None, True, False]),
    owned=st.sampled_from([None, OwnedPods(0), OwnedPods(3, 1)]),
    bounds=st.sampled_from([None, {"cpu": ContainerBound("1", "2", True, "1")}]),
)
SELECTED = st.permutations(list(HANDLERS)).flatmap(
    lambda names: st.sampled_from([names[:count] for count in range(4)])
)


@given(PODS, REQUESTS, CONTEXTS, SELECTED)
def test_patched_pod_is_as_valid_as_before_and_gets_no_second_patch(
    pod: Json, request: AdmissionRequest, context: Context, handlers: list[str]
) -> None:
    before = copy.deepcopy(pod)
    outcome = mutate(pod, request, handlers, context)
    assert pod == before
    after = applied(pod, outcome)
    assert shape_fault(after) == ""
    assert set(faults(after)) <= set(faults(pod))
    assert mutate(after, request, handlers, context).patch == ()


@given(PODS, REQUESTS, CONTEXTS, SELECTED)
def test_patch_changes_nothing_else(
    pod: Json, request: AdmissionRequest, context: Context, handlers: list[str]
) -> None:
    after = applied(pod, mutate(pod, request, handlers, context))
    assert _rest(after) == _rest(pod)
    for field in ("containers", "initContainers"):
        for was, now in zip(_users(pod, field), _users(after, field), strict=True):
            _check_container(was, now)
    for key, value in (pod["metadata"].get("labels") or {}).items():
        if key != f"{PREFIX}group":
            assert after["metadata"]["labels"][key] == value
    for key, value in (pod["metadata"].get("annotations") or {}).items():
        if not key.startswith(f"{PREFIX}coordination-role") and not key.startswith(f"{PREFIX}depends-on"):
            assert after["metadata"]["annotations"][key] == value


def _check_container(was: Json, now: Json) -> None:
    """A user's container keeps everything but its qpu; its variables keep their values and their order."""
    ours = {"env", "volumeMounts", "resources"}
    assert {k: v for k, v in was.items() if k not in ours} == {k: v for k, v in now.items() if k not in ours}
    kept = [one for one in was.get("env") or () if one["name"] != "PYTHONPATH"]
    found = [one for one in now.get("env") or () if one in kept]
    assert [one for one in found if one["name"] != "PYTHONPATH"] == kept
    assert [one for one in now.get("volumeMounts") or () if one in (was.get("volumeMounts") or ())] == (
        was.get("volumeMounts") or []
    )
    for field in ("requests", "limits"):
        asked = (was.get("resources") or {}).get(field) or {}
        left = (now.get("resources") or {}).get(field) or {}
        added = ("/qpu", "/binding")
        assert {k: v for k, v in asked.items() if not k.endswith(added)} == {
            k: v for k, v in left.items() if not k.endswith(added)
        }


def _users(pod: Json, field: str) -> list[Json]:
    return [one for one in pod["spec"].get(field) or () if not is_own(one)]


def _rest(pod: Json) -> Json:
    touched = {
        *("containers", "initContainers", "volumes", "schedulingGates", "schedulingGroup"),
        *("priorityClassName", "priority"),
    }
    spec = {key: value for key, value in pod["spec"].items() if key not in touched}
    metadata = {key: value for key, value in pod["metadata"].items() if key not in ("labels", "annotations")}
    return {"spec": spec, "metadata": metadata}


KEYS = st.sampled_from(
    ["metadata", "spec", "labels", "annotations", "containers", "env", "name", "resources", "requests"]
)
GARBAGE = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)
SPOILED = st.sampled_from(
    [
        *("metadata", "spec", "containers", "initContainers", "env", "labels", "annotations", "resources"),
        *("volumes", "schedulingGates", "schedulingGroup", "ownerReferences", "name", "volumeMounts"),
    ]
)


@given(GARBAGE, SPOILED, st.sampled_from(["", "spec", "metadata", "container"]), PODS, CONTEXTS)
def test_garbage_never_raises(garbage: Any, field: str, where: str, pod: Json, context: Context) -> None:
    spoiled = copy.deepcopy(pod)
    holders: dict[str, Json] = {"": spoiled, "container": spoiled["spec"]["containers"][0]}
    holder: Json = holders[where] if where in holders else spoiled.get(where, spoiled)
    holder[field] = garbage
    outcome = mutate(spoiled, AdmissionRequest("ns"), tuple(HANDLERS), context)
    applied(spoiled, outcome)
