"""What handlers are told of the cluster, as it changes."""

from __future__ import annotations

import pytest

from fluence_extender.cluster.port import Changed, ClusterError, Denied, Kind, Listed
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.model.pod import Pod
from fluence_extender.webhook.contract import Context, GroupKind
from fluence_extender.webhook.surroundings import POLICY, POLICY_BINDING, PRIORITY_CLASS, Surroundings
from tests.unit.webhook.stored_objects import StoredObjects, refusing, unreachable

OWN_POD = "/api/v1/namespaces/kube-system/pods/webhook-1"


class Around:
    """A webhook's surroundings on an API server without anything of ours."""

    def __init__(self, own_pod: str = "") -> None:
        self.objects = StoredObjects()
        self.surroundings = Surroundings(self.objects, Context(sidecar_image="usual"), own_pod)

    @property
    def context(self) -> Context:
        return self.surroundings.context

    def serves(self, native: bool, coscheduling: bool) -> None:
        self.surroundings.take(Listed(Kind.POD_GROUP, (), native))
        self.surroundings.take(Listed(Kind.COSCHEDULING_GROUP, (), coscheduling))


async def test_nothing_is_missing_once_everything_was_found_out() -> None:
    around = Around()
    assert around.surroundings.missing == (
        "it isn't known yet: resources.yaml, which PodGroups are served, whether an admission policy adds the gate"
    )
    around.surroundings.adopt(VirtualResources("file"))
    around.surroundings.take(Listed(Kind.POD_GROUP, (), True))
    await around.surroundings.look()
    assert around.surroundings.missing == "it isn't known yet: which PodGroups are served"
    around.surroundings.take(Listed(Kind.COSCHEDULING_GROUP, (), False))
    assert around.surroundings.missing == ""


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
    around = Around()
    around.serves(native, coscheduling)
    assert around.context.groups is groups


def test_pod_groups_that_come_and_go_are_followed() -> None:
    around = Around()
    around.serves(False, False)
    for served, groups in ((True, GroupKind.COSCHEDULING), (False, GroupKind.NONE)):
        around.serves(False, served)
        assert around.context.groups is groups


def test_other_observations_change_nothing() -> None:
    around = Around()
    before = around.context
    around.surroundings.take(Listed(Kind.POD, ()))
    around.surroundings.take(Changed(Kind.POD, Pod("default", "p", "u")))
    assert around.context is before


def test_live_edit_of_the_resources_is_followed() -> None:
    around = Around()
    for source in ("one", "two"):
        around.surroundings.adopt(VirtualResources(source))
        assert around.context.resources == VirtualResources(source)


async def test_webhook_gates_where_no_policy_does() -> None:
    around = Around()

    async def gates() -> bool:
        await around.surroundings.look()
        return around.context.gate_by_webhook

    assert await gates()
    around.objects.put(POLICY, {})
    assert await gates()
    around.objects.put(POLICY_BINDING, {})
    assert not await gates()
    del around.objects.objects[POLICY]
    assert await gates()


async def test_priority_class_is_used_where_it_exists() -> None:
    around = Around()
    await around.surroundings.look()
    assert not around.context.priority_class
    around.objects.put(PRIORITY_CLASS, {})
    await around.surroundings.look()
    assert around.context.priority_class


async def test_outage_leaves_what_was_known() -> None:
    around = Around()
    for path in (POLICY, POLICY_BINDING, PRIORITY_CLASS):
        around.objects.put(path, {})
    await around.surroundings.look()
    before = around.context
    around.objects.before = unreachable
    await around.surroundings.look()
    assert around.context == before
    assert not before.gate_by_webhook


async def test_outage_at_the_start_leaves_it_unknown() -> None:
    around = Around()
    around.objects.before = unreachable
    await around.surroundings.look()
    assert "admission policy" in around.surroundings.missing


async def test_without_the_right_to_look_the_webhook_gates_itself() -> None:
    around = Around()
    for path in (POLICY, POLICY_BINDING):
        around.objects.put(path, {})
    around.objects.before = refusing("read")
    await around.surroundings.look()
    assert around.context.gate_by_webhook
    assert "admission policy" not in around.surroundings.missing


async def test_sidecars_get_the_image_that_our_own_pod_runs() -> None:
    around = Around(OWN_POD)
    around.objects.put(OWN_POD, {"spec": {"containers": [{"image": "registry.example/fluence:1"}]}})
    await around.surroundings.look()
    assert around.context.sidecar_image == "registry.example/fluence:1"


@pytest.mark.parametrize("error", [None, Denied("no", 403)])
async def test_out_of_a_pod_the_usual_image_is_used(error: ClusterError | None) -> None:
    around = Around(OWN_POD)
    if error is not None:
        around.objects.before = lambda verb, path: refusing("read", error)(
            verb if path == OWN_POD else "", path
        )
    await around.surroundings.look()
    assert around.context.sidecar_image == "usual"
    assert "admission policy" not in around.surroundings.missing
