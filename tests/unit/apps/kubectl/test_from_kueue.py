"""Kueue's objects become Queues that do the same, and what they don't do is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.apps.kubectl.errors import CommandError
from fluence_extender.apps.kubectl.from_kueue import migrated
from fluence_extender.apps.kubectl.kueue import objects_of_kueue
from fluence_extender.cluster.decode.queue import decode_queue
from fluence_extender.queueing.tree import grow
from tests.unit.apps.kubectl.programs import Fluence, Program

API = "kueue.x-k8s.io/v1beta2"
Object = dict[str, Any]


def thing(kind: str, name: str, namespace: str = "", **spec: Any) -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec}


def quotas(**amounts: Any) -> list[Object]:
    """One flavor; an amount, or nominal, borrowing and lending ones."""
    keys = ("nominalQuota", "borrowingLimit", "lendingLimit")
    found = [
        {"name": kind, **{key: one for key, one in zip(keys, some, strict=False) if one is not None}}
        for kind, some in ((kind, one if isinstance(one, tuple) else (one,)) for kind, one in amounts.items())
    ]
    return [{"coveredResources": list(amounts), "flavors": [{"name": "any", "resources": found}]}]


def cluster_queue(name: str, **spec: Any) -> Object:
    return thing("ClusterQueue", name, **{"namespaceSelector": {}, **spec})


def specs(*objects: Object) -> tuple[dict[str, Object], list[str]]:
    """The specs of the Queues by name, and the notes."""
    found = migrated(objects_of_kueue(objects))
    queues = {one["metadata"]["name"]: one["spec"] for one in yaml.safe_load_all(found.manifest())}
    return queues, found.notes


def as_json(name: str, spec: Object) -> bytes:
    return json.dumps({"metadata": {"name": name, "uid": name}, "spec": spec}).encode()


def test_teams_of_a_cohort_keep_their_quotas_and_names() -> None:
    queues, notes = specs(
        cluster_queue("a", cohortName="lab", resourceGroups=quotas(cpu=(9, 3), memory="36Gi")),
        cluster_queue(
            "b", cohort="lab", resourceGroups=quotas(cpu=("5500m", None, 2)), stopPolicy="HoldAndDrain"
        ),
        thing("LocalQueue", "alpha", "team-a", clusterQueue="a"),
        thing("LocalQueue", "beta", "team-b", clusterQueue="b"),
        thing("ResourceFlavor", "any"),
    )
    assert not notes
    assert list(queues) == ["lab", "a", "b", "alpha", "beta"]
    assert queues["lab"] == {"limit": {"cpu": "14500m", "memory": "36Gi"}}
    assert queues["a"] == {
        "parent": "lab",
        "guaranteed": {"cpu": "9", "memory": "36Gi"},
        "limit": {"cpu": "12"},
        "namespaces": {"names": ["team-a"]},
        "preemption": {"within": "Never"},
    }
    assert queues["b"]["lendable"] == {"cpu": "2"}
    assert "limit" not in queues["b"]
    assert queues["alpha"] == {
        "parent": "a",
        "namespaces": {"names": ["team-a"]},
        "preemption": {"within": "Never"},
    }
    assert queues["beta"]["stop"] == queues["b"]["stop"] == "Evict"


def test_queue_without_a_cohort_uses_its_quota_alone() -> None:
    queues, _ = specs(cluster_queue("a", resourceGroups=quotas(cpu=9)))
    assert queues["a"]["limit"] == queues["a"]["guaranteed"] == {"cpu": "9"}


def test_cohort_has_its_own_quota_and_that_of_all_below() -> None:
    queues, _ = specs(
        thing("Cohort", "site", resourceGroups=quotas(cpu=10), fairSharing={"weight": "500m"}),
        thing("Cohort", "lab", parentName="site"),
        cluster_queue("a", cohortName="lab", resourceGroups=quotas(cpu=4)),
    )
    assert queues["site"] == {"weight": 0.5, "guaranteed": {"cpu": "14"}, "limit": {"cpu": "14"}}
    assert queues["lab"] == {"parent": "site"}


def test_amounts_of_flavors_are_added_up_and_hardware_is_noted() -> None:
    flavors = [
        {"name": name, "resources": [{"name": "nvidia.com/gpu", "nominalQuota": most, "borrowingLimit": 1}]}
        for name, most in (("a100", 4), ("l4", 8))
    ]
    queues, notes = specs(
        cluster_queue("a", cohort="lab", resourceGroups=[{"flavors": flavors}]),
        thing("ResourceFlavor", "a100", nodeLabels={"gpu": "a100"}),
    )
    assert queues["a"]["guaranteed"] == {"nvidia.com/gpu": "12"}
    assert queues["a"]["limit"] == {"nvidia.com/gpu": "14"}
    assert any("ResourceFlavor a100: nodeLabels" in one and "nodeSelector" in one for one in notes)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"queueingStrategy": "StrictFIFO"}, "scheduling.policy"),
        ({"admissionChecks": ["prov"]}, "admissionChecks is dropped"),
        ({"newField": {"deep": [1]}}, "newField is dropped: no Queue has it"),
        ({"namespaceSelector": None}, "selects no namespace"),
        ({"fairSharing": {"weight": 0}}, "stands for 0"),
    ],
)
def test_what_a_queue_does_not_do_is_noted(spec: Object, told: str) -> None:
    _, notes = specs(cluster_queue("a", **spec), thing("LocalQueue", "l", "ns", clusterQueue="a"))
    assert [told in one for one in notes] == [True]


def test_defaults_that_the_api_server_writes_need_no_note() -> None:
    _, notes = specs(
        cluster_queue(
            "a",
            queueingStrategy="BestEffortFIFO",
            stopPolicy="None",
            flavorFungibility={"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"},
            preemption={"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "Never"}},
        ),
        thing("LocalQueue", "l", "ns", clusterQueue="a", stopPolicy="None"),
    )
    assert not notes


def test_local_queues_that_share_a_name_become_one_queue_if_they_are_the_same() -> None:
    same = [thing("LocalQueue", "user-queue", ns, clusterQueue="a") for ns in ("x", "y")]
    queues, notes = specs(cluster_queue("a"), *same)
    assert queues["user-queue"]["namespaces"] == {"names": ["x", "y"]}
    assert not notes
    other = thing("LocalQueue", "user-queue", "z", clusterQueue="b")
    queues, notes = specs(cluster_queue("a"), cluster_queue("b"), *same, other)
    assert "user-queue" not in queues
    assert ["name Queue a or b" in one for one in notes] == [True]


def test_default_local_queue_takes_work_without_a_label() -> None:
    queues, notes = specs(cluster_queue("a"), thing("LocalQueue", "default", "x", clusterQueue="a"))
    assert (queues["a"]["namespaces"], queues["a"]["defaultFor"]) == ({"names": ["x"]}, ["x"])
    assert len(queues) == 1
    assert "take the label off" in notes[0]


def test_names_that_two_kinds_have_are_kept_apart() -> None:
    queues, notes = specs(
        cluster_queue("a", cohort="a"), cluster_queue("b"), thing("LocalQueue", "b", "x", clusterQueue="a")
    )
    assert queues["a"]["parent"] == "a-cohort"
    assert "parent" not in queues["b"]
    assert len(notes) == 3


def test_queue_takes_back_what_kueue_would() -> None:
    preemption = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
    one = cluster_queue("a", cohort="lab", resourceGroups=quotas(cpu=9), preemption=preemption)
    here = {"within": "LowerPriority", "reclaim": "Borrowed"}
    queues, notes = specs(one, thing("LocalQueue", "l", "x", clusterQueue="a"))
    assert not notes
    for name in ("a", "l"):
        assert (queues[name]["preemption"], queues[name]["guaranteed"]) == (here, {"cpu": "9"})
    both = [thing("LocalQueue", name, "x", clusterQueue="a") for name in ("l", "m")]
    queues, notes = specs(one, *both)
    assert queues["a"]["preemption"] == here
    assert [queues[name]["preemption"] for name in ("l", "m")] == [{"within": "LowerPriority"}] * 2
    assert ["give each Queue below it a part of its guarantee" in one for one in notes] == [True]


@pytest.mark.parametrize(
    ("preemption", "told"),
    [
        ({"withinClusterQueue": "LowerOrNewerEqualPriority"}, "only that of a lower one"),
        ({"reclaimWithinCohort": "LowerPriority"}, "at any priority"),
        ({"borrowWithinCohort": {"policy": "LowerPriority"}}, "borrowWithinCohort is dropped"),
    ],
)
def test_preemption_that_is_not_quite_the_same_is_noted(preemption: Object, told: str) -> None:
    _, notes = specs(
        cluster_queue("a", cohort="lab", resourceGroups=quotas(cpu=9), preemption=preemption),
        thing("LocalQueue", "l", "x", clusterQueue="a"),
    )
    assert [told in one for one in notes] == [True]


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (
            {"resourceGroups": quotas(cpu="many")},
            "ClusterQueue a: nominalQuota of cpu: 'many' isn't a quantity",
        ),
        ({"resourceGroups": {"cpu": 1}}, "ClusterQueue a: resourceGroups isn't a list"),
        ({"fairSharing": "2"}, "ClusterQueue a: fairSharing isn't a map"),
    ],
)
def test_object_that_cannot_be_read_is_named(broken: Object, told: str) -> None:
    with pytest.raises(CommandError, match=told):
        specs(cluster_queue("a", **broken))


names = st.sampled_from(["a", "b", "c", "lab", "site", "x"])
amounts = st.one_of(st.none(), st.integers(0, 99))
groups = st.builds(
    lambda kind, some: quotas(**{kind: (some[0] or 0, *some[1:])}),
    st.sampled_from(["cpu", "memory"]),
    st.tuples(amounts, amounts, amounts),
)


@given(
    st.dictionaries(names, st.tuples(names, groups), max_size=4),
    st.dictionaries(names, st.tuples(names, groups), max_size=4),
    st.dictionaries(st.tuples(names, names), names, max_size=4),
)
def test_any_objects_become_queues_that_the_service_reads(
    clusters: dict[str, Any], cohorts: dict[str, Any], local: dict[tuple[str, str], str]
) -> None:
    queues, _ = specs(
        *(cluster_queue(name, cohort=above, resourceGroups=some) for name, (above, some) in clusters.items()),
        *(
            thing("Cohort", name, parent=above, resourceGroups=some)
            for name, (above, some) in cohorts.items()
        ),
        *(thing("LocalQueue", name, ns, clusterQueue=above) for (ns, name), above in local.items()),
    )
    read = {name: decode_queue(as_json(name, spec)) for name, spec in queues.items()}
    assert set(clusters) <= set(read)
    assert not [one.problems for one in read.values() if one.problems]
    tree = grow(read, {"cpu": 10**9, "memory": 10**9})
    for name, (_, some) in clusters.items():
        for one in some[0]["flavors"][0]["resources"]:
            unit = 1000 if one["name"] == "cpu" else 1
            assert read[name].quota.guaranteed.get(one["name"], 0) == one["nominalQuota"] * unit
    assert set(tree.branches) == set(read)


def test_files_are_read_and_notes_go_to_stderr(fluence: Fluence, tmp_path: Path) -> None:
    file = tmp_path / "kueue.yaml"
    objects = [
        cluster_queue("a", queueingStrategy="StrictFIFO"),
        thing("LocalQueue", "l", "x", clusterQueue="a"),
    ]
    file.write_text(yaml.safe_dump_all(objects))
    ended = fluence("queue", "from-kueue", "-f", str(file))
    assert ended.code == 0
    assert [one["metadata"]["name"] for one in yaml.safe_load_all(ended.out)] == ["a", "l"]
    assert ended.err.startswith("note: ClusterQueue a: queueingStrategy is dropped")


def test_cluster_is_read_with_the_users_kubectl(fluence: Fluence, kubectl: Program) -> None:
    listed = {"kind": "List", "items": [cluster_queue("a")]}
    kubectl.answers("get clusterqueues.kueue.x-k8s.io", json.dumps(listed))
    kubectl.answers("get cohorts", err='error: the server doesn\'t have a resource type "cohorts"', code=1)
    ended = fluence("queue", "from-kueue", "--context", "there")
    assert (ended.code, "name: a" in ended.out) == (0, True)
    assert all("--context=there" in call for call in kubectl.calls if call[0] == "get")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["from-kueue", "-f", "absent.yaml"], "absent.yaml doesn't exist"),
        (["from-kueue", "a.yaml"], "-f a.yaml reads a file"),
        (["list", "-f", "a.yaml"], "-f is for from-kueue"),
    ],
)
def test_wrong_words_are_answered(fluence: Fluence, words: list[str], told: str) -> None:
    ended = fluence("queue", *words)
    assert ended.code
    assert told in ended.err


def test_files_without_queues_of_kueue_are_told(fluence: Fluence, tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    file.write_text("kind: Pod\n---\n- 1\n")
    assert "there are no ClusterQueues" in fluence("queue", "from-kueue", "-f", str(file)).err
    file.write_text("a: [")
    assert "isn't valid YAML" in fluence("queue", "from-kueue", "-f", str(file)).err
