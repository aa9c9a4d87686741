"""Keys under the project's domain that have no effect are remarked on, with what was probably meant."""

from __future__ import annotations

import pytest

from fluence_extender.model.keys import ANNOTATIONS, LABELS, ON_JOBS, PREFIXES, REQUESTED, TEMPLATED, TIMES
from fluence_extender.model.pod_keys import ineffective, remarks

OURS = "fluence.flux-framework.org/"


@pytest.mark.parametrize(
    ("labels", "annotations", "remark"),
    [
        (
            {},
            {"groupsize": "3"},
            f"annotation {OURS}groupsize does nothing: did you mean the annotation {OURS}group-size?",
        ),
        (
            {},
            {"Group_Size": "3"},
            f"annotation {OURS}Group_Size does nothing: did you mean the annotation {OURS}group-size?",
        ),
        ({}, {"group": "g"}, f"annotation {OURS}group does nothing: write it under metadata.labels"),
        (
            {"group-size": "3"},
            {},
            f"label {OURS}group-size does nothing: write it under metadata.annotations",
        ),
        (
            {"suspend": "never"},
            {},
            f"label {OURS}suspend does nothing: write it on the Job itself, or on its namespace",
        ),
        ({"gruop": "g"}, {}, f"label {OURS}gruop does nothing: did you mean the label {OURS}group?"),
        (
            {"require-vendor": "ibm"},
            {},
            f"label {OURS}require-vendor does nothing: write it under metadata.annotations",
        ),
        (
            {},
            {"zzz": ""},
            f"annotation {OURS}zzz does nothing: there is no such key; kubectl fluence explain lists all",
        ),
        (
            {},
            {"duration": "soon"},
            f"annotation {OURS}duration is 'soon': it must be a time of more than 0 such as 90, 90s, 15m or 1h30m",
        ),
        (
            {},
            {"schedule-timeout": "0"},
            f"annotation {OURS}schedule-timeout is '0': it must be a time of more than 0 such as 90, 90s, 15m or 1h30m",
        ),
    ],
)
def test_key_without_effect_is_remarked_on_with_what_to_write(
    labels: dict[str, str], annotations: dict[str, str], remark: str
) -> None:
    found = remarks(
        {OURS + key: text for key, text in labels.items()},
        {OURS + key: text for key, text in annotations.items()},
    )
    assert list(found) == [remark]


@pytest.mark.parametrize(
    ("key", "instead"),
    [
        ("scheduling.k8s.io/pod-group", f"name the group in the label {OURS}group"),
        (f"{OURS}pod-group", f"name the group in the label {OURS}group"),
        ("fluence.pod-group", f"name the group in the label {OURS}group"),
        ("fluxqueue.group-size", f"state the size in the annotation {OURS}group-size"),
    ],
)
def test_key_of_an_older_scheduler_is_remarked_on_with_its_successor(key: str, instead: str) -> None:
    assert list(remarks({key: "g"}, {})) == [f"label {key} does nothing: {instead}"]
    assert list(remarks({}, {key: "g"})) == [f"annotation {key} does nothing: {instead}"]


def test_backend_as_a_request_is_remarked_on_unless_the_pod_was_copied() -> None:
    request = {f"{OURS}backend": "ibm_fez"}
    (remark,) = remarks({}, request)
    assert remark.endswith(f"to request a device, write {OURS}require-backend")
    assert list(remarks({}, {**request, f"{OURS}allocation": "[]"})) == []


def test_size_on_a_job_itself_counts_and_on_others_it_does_not() -> None:
    assert list(ineffective("Job", [f"{OURS}group-size"], [])) == []
    assert len(list(ineffective("Deployment", [f"{OURS}group-size"], []))) == 1


def test_there_is_no_remark_on_effective_keys_and_keys_of_others() -> None:
    annotations = {key: "1h30m" if key in TIMES else "3" for key in ANNOTATIONS}
    annotations |= {f"{OURS}require-vendor": "ibm", f"{OURS}attr-vendor": "ibm"}
    annotations |= {f"demo.{OURS}run-for": "5s", f"producer.{OURS}backend": "fez", "example.com/group": "a"}
    labels = {**dict.fromkeys(LABELS, "g"), "app": "x", "group": "g"}
    assert list(remarks(labels, annotations)) == []


def test_keys_of_a_workload_that_count_only_on_its_pods_are_remarked_on() -> None:
    own = [f"{OURS}group", f"{OURS}group-size", f"{OURS}select-policy", "app"]
    assert list(ineffective("Job", own, [f"{OURS}group-size"])) == [
        f"{OURS}group does nothing on a Job itself: write it under the metadata of its pod template"
    ]
    assert f"{OURS}select-policy" not in TEMPLATED


@pytest.mark.parametrize("kind", ["Job", "Deployment", "StatefulSet", "LeaderWorkerSet"])
@pytest.mark.parametrize("key", ["queue", "hold", "after", "duration"])
def test_keys_of_the_queue_and_durations_count_on_workloads(kind: str, key: str) -> None:
    assert list(ineffective(kind, [f"{OURS}{key}"], [])) == []


def test_table_says_which_keys_users_write_and_where() -> None:
    def ours(*names: str) -> set[str]:
        return {f"{OURS}{name}" for name in names}

    quantum = ours("coordination", "coordination-role", "task-discovery-timeout", "task-poll-interval")
    on_pods_alone = quantum | ours(
        *("group-size", "schedule-timeout", "topology-required", "topology-preferred", "require-backend")
    )
    selecting = ours("select-policy", "select-candidates", "select-constraints", "select-shots")
    assert ours("group", "queue", "account", "observe") == LABELS
    assert on_pods_alone | selecting | ours("duration", "hold", "after") == REQUESTED
    assert on_pods_alone | ours("group", "account", "observe") == TEMPLATED
    assert ours("suspend", "suspended-for", "queued-since") == ON_JOBS
    assert ours("require-", "attr-") == set(PREFIXES)
    assert ours("schedule-timeout", "duration", "task-discovery-timeout", "task-poll-interval") == set(TIMES)
    written = ours("backend", "allocation", "submitted-by", "warning", "placed-with", "nodes", "after-met")
    assert written < ANNOTATIONS - REQUESTED
    assert not ours("leads", "kept", "intake", "suspended-for", "queued-since") & (ANNOTATIONS | LABELS)
