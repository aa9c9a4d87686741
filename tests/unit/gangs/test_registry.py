"""What is known of pods and gangs, and which gangs a change touches."""

from __future__ import annotations

from dataclasses import replace

from fluence_extender.gangs.registry import Registry
from fluence_extender.model.names import GROUP_LABEL
from fluence_extender.model.pod import Owner
from fluence_extender.model.workload import Job, PodGroup
from tests.core.values import pod


def dirty(registry: Registry) -> set[str]:
    names = {key.name for key in registry.dirty}
    registry.dirty.clear()
    return names


def test_pod_is_a_member_of_its_gang_until_it_is_gone() -> None:
    registry = Registry()
    one = pod(labels={GROUP_LABEL: "g"})
    member = registry.put_pod(one)
    assert dirty(registry) == {"g"}
    found = registry.member(one.uid)
    assert found is not None
    assert found[1] is member
    registry.drop_pod(one.uid)
    assert registry.member(one.uid) is None
    assert not registry.gangs
    registry.drop_pod(one.uid)


def test_new_state_of_a_pod_keeps_its_member() -> None:
    registry = Registry()
    one = pod(labels={GROUP_LABEL: "g"})
    member = registry.put_pod(one)
    assert registry.put_pod(replace(one, nominated="n0")) is member
    assert member.pod.nominated == "n0"


def test_pod_that_is_relabelled_changes_its_gang() -> None:
    registry = Registry()
    one, other = pod(labels={GROUP_LABEL: "g"}), pod(labels={GROUP_LABEL: "g"})
    member = registry.put_pod(one)
    registry.put_pod(other)
    dirty(registry)
    assert registry.put_pod(replace(one, labels={GROUP_LABEL: "h"})) is member
    assert dirty(registry) == {"g", "h"}
    assert {key.name: len(gang.members) for key, gang in registry.gangs.items()} == {"g": 1, "h": 1}
    registry.put_pod(replace(other, labels={GROUP_LABEL: "h"}))
    assert {key.name: len(gang.members) for key, gang in registry.gangs.items()} == {"h": 2}


def test_job_touches_the_gangs_of_its_pods_when_it_changes() -> None:
    registry = Registry()
    registry.put_pod(pod(labels={GROUP_LABEL: "g"}, owner=Owner("Job", "j", "uid")))
    registry.put_pod(pod(labels={GROUP_LABEL: "other"}))
    dirty(registry)
    job = Job("default", "j", "uid", 2)
    registry.put_job(job)
    assert dirty(registry) == {"g"}
    registry.put_job(job)
    assert dirty(registry) == set()
    registry.put_job(replace(job, parallelism=3))
    assert dirty(registry) == {"g"}
    registry.replace_jobs([])
    assert registry.job("default", "j") is None
    assert dirty(registry) == {"g"}


def test_pod_group_touches_its_gang_when_it_changes() -> None:
    registry = Registry()
    registry.put_pod(pod(group="pg"))
    dirty(registry)
    group = PodGroup("default", "pg", "uid", 2)
    registry.replace_groups([group, PodGroup("default", "unused", "u", 1)])
    assert dirty(registry) == {"pg"}
    registry.replace_groups([group])
    assert dirty(registry) == set()
    assert registry.pod_group("default", "unused") is None
    registry.drop_group(group)
    assert dirty(registry) == {"pg"}
