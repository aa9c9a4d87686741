"""The context of admissions follows the cluster."""

from __future__ import annotations

from contextlib import suppress

import pytest

from fluence_extender.cluster.errors import ClusterError, Denied
from fluence_extender.cluster.port import Changed, Listed
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.kinds.podgroups import CoschedulingGroup, PodGroup
from fluence_extender.model.pod import Pod
from fluence_extender.webhook.context import PRIORITY_CLASS, ContextTracker
from fluence_extender.webhook.contract import Context, GroupKind
from tests.unit.webhook.stored_objects import StoredObjects, refusing, unreachable

OWN_POD = "/api/v1/namespaces/fluence-system/pods/webhook-1"


class Cluster:
    """A context tracker on an API server without anything of ours."""

    def __init__(self, own_pod: str = "") -> None:
        self.objects = StoredObjects()
        self.tracker = ContextTracker(self.objects, Context(sidecar_image="usual"), own_pod)

    async def look(self) -> None:
        """Read what isn't watched, whatever comes of it."""
        with suppress(ClusterError):
            await self.tracker.reconcile("")

    @property
    def context(self) -> Context:
        return self.tracker.context

    def serves(self, native: bool, coscheduling: bool) -> None:
        self.tracker.observe(Listed(PodGroup, (), native))
        self.tracker.observe(Listed(CoschedulingGroup, (), coscheduling))


async def test_nothing_is_missing_once_everything_is_known() -> None:
    cluster = Cluster()
    assert cluster.tracker.missing == (
        "not known yet: resources.yaml, which PodGroups are served, whether the priority class of consumers exists"
    )
    cluster.tracker.adopt(VirtualResources("file"))
    cluster.tracker.observe(Listed(PodGroup, (), True))
    await cluster.look()
    assert cluster.tracker.missing == "not known yet: which PodGroups are served"
    cluster.tracker.observe(Listed(CoschedulingGroup, (), False))
    assert cluster.tracker.missing == ""


@pytest.mark.parametrize(
    ("native", "coscheduling", "groups"),
    [
        (True, True, GroupKind.NATIVE),
        (True, False, GroupKind.NATIVE),
        (False, True, GroupKind.COSCHEDULING),
        (False, False, GroupKind.NONE),
    ],
)
def test_best_pod_groups_that_are_served_are_used(
    native: bool, coscheduling: bool, groups: GroupKind
) -> None:
    cluster = Cluster()
    cluster.serves(native, coscheduling)
    assert cluster.context.groups is groups


def test_pod_groups_that_come_and_go_are_followed() -> None:
    cluster = Cluster()
    cluster.serves(False, False)
    for served, groups in ((True, GroupKind.COSCHEDULING), (False, GroupKind.NONE)):
        cluster.serves(False, served)
        assert cluster.context.groups is groups


def test_other_observations_change_nothing() -> None:
    cluster = Cluster()
    before = cluster.context
    cluster.tracker.observe(Listed(Pod, ()))
    cluster.tracker.observe(Changed(Pod("default", "p", "u")))
    assert cluster.context is before


def test_live_edit_of_the_resources_is_followed() -> None:
    cluster = Cluster()
    for source in ("one", "two"):
        cluster.tracker.adopt(VirtualResources(source))
        assert cluster.context.resources == VirtualResources(source)


async def test_priority_class_is_used_if_it_exists() -> None:
    cluster = Cluster()
    await cluster.look()
    assert not cluster.context.priority_class
    cluster.objects.put(PRIORITY_CLASS, {})
    await cluster.look()
    assert cluster.context.priority_class


async def test_outage_keeps_what_was_known() -> None:
    cluster = Cluster()
    cluster.objects.put(PRIORITY_CLASS, {})
    await cluster.look()
    before = cluster.context
    cluster.objects.before = unreachable
    await cluster.look()
    assert cluster.context == before
    assert before.priority_class


async def test_outage_at_the_start_leaves_the_priority_class_unknown() -> None:
    cluster = Cluster()
    cluster.objects.before = unreachable
    await cluster.look()
    assert "priority class" in cluster.tracker.missing


async def test_priority_class_is_not_used_if_the_webhook_may_not_read_it() -> None:
    cluster = Cluster()
    cluster.objects.put(PRIORITY_CLASS, {})
    cluster.objects.before = refusing("read")
    await cluster.look()
    assert not cluster.context.priority_class
    assert "priority class" not in cluster.tracker.missing


async def test_sidecars_get_the_image_that_our_own_pod_runs() -> None:
    cluster = Cluster(OWN_POD)
    cluster.objects.put(OWN_POD, {"spec": {"containers": [{"image": "registry.example/fluence:1"}]}})
    await cluster.look()
    assert cluster.context.sidecar_image == "registry.example/fluence:1"


@pytest.mark.parametrize("error", [None, Denied("no", 403)])
async def test_usual_image_is_used_outside_a_pod(error: ClusterError | None) -> None:
    cluster = Cluster(OWN_POD)
    if error is not None:
        cluster.objects.before = lambda verb, path: refusing("read", error)(
            verb if path == OWN_POD else "", path
        )
    await cluster.look()
    assert cluster.context.sidecar_image == "usual"
    assert "priority class" not in cluster.tracker.missing
