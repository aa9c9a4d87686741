"""The registration is kept as it should be, and an object that isn't ours is left alone."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from structlog.testing import capture_logs

from fluence_extender.cluster.errors import ClusterError, Conflict
from fluence_extender.identity.authority import SECRET, SharedAuthority
from fluence_extender.identity.certificates import read_bundle, signed_by
from fluence_extender.identity.registration import Identity
from fluence_extender.model.names import WEBHOOK_NAME
from fluence_extender.webhook.registration import (
    PATH,
    RegistrationReconciler,
    UrlTarget,
    registered_bundle,
    registration,
)
from tests.unit.webhook.certificates import Clock
from tests.unit.webhook.stored_objects import StoredObjects, refusing, unreachable

TARGET = UrlTarget("https://127.0.0.1:8443/mutate")
SECRET_PATH = f"/api/v1/namespaces/fluence-system/secrets/{SECRET}"


@dataclass
class Replica:
    """One replica, which may share its API server with others."""

    objects: StoredObjects = field(default_factory=StoredObjects)
    clock: Clock = field(default_factory=Clock)
    installed: list[Identity] = field(default_factory=list)
    may_register: bool = True

    def __post_init__(self) -> None:
        source = SharedAuthority(self.objects, "fluence-system", TARGET.hosts, self.clock)
        self.registration = RegistrationReconciler(
            self.objects,
            source,
            TARGET,
            self.installed.append,
            lambda: self.may_register,
        )

    def state(self) -> tuple[bool, str]:
        """Return whether the webhook is registered, and what is wrong."""
        return self.registration.registered, self.registration.problem

    async def look(self, times: int = 1) -> None:
        for _ in range(times):
            await self.registration.reconcile("")

    def registered(self) -> bytes:
        return registered_bundle(self.objects.objects.get(PATH))

    def accepted(self) -> bool:
        """Return whether the API server accepts the certificate that is shown now."""
        (leaf, *_) = read_bundle(self.installed[-1].certificate)
        return any(signed_by(leaf, one) for one in read_bundle(self.registered()))


async def test_first_look_registers_with_the_authority() -> None:
    replica = Replica()
    await replica.look()
    assert replica.registration.registered
    assert replica.registration.problem == ""
    assert replica.accepted()
    assert len(replica.installed) == 1
    assert replica.objects.writes() == [("create", SECRET_PATH), ("create", PATH)]


async def test_further_looks_write_nothing() -> None:
    replica = Replica()
    await replica.look(5)
    assert len(replica.objects.writes()) == 2
    assert len(replica.installed) == 1


async def test_nothing_is_registered_before_reviews_can_be_answered() -> None:
    replica = Replica(may_register=False)
    await replica.look(3)
    assert PATH not in replica.objects.objects
    assert not replica.registration.registered
    assert len(replica.installed) == 1
    replica.may_register = True
    await replica.look()
    assert replica.registration.registered


async def test_edit_of_the_bundle_is_corrected() -> None:
    replica = Replica()
    await replica.look()
    before = copy.deepcopy(replica.objects.objects[PATH])
    edited = copy.deepcopy(before)
    for one in edited["webhooks"]:
        one["clientConfig"]["caBundle"] = "eA=="
    edited["metadata"]["annotations"] = {"theirs": "stays"}
    replica.objects.put(PATH, edited)
    await replica.look()
    after = replica.objects.objects[PATH]
    assert after["webhooks"] == before["webhooks"]
    assert after["metadata"]["annotations"] == {"theirs": "stays"}


async def test_deleted_registration_is_made_again() -> None:
    replica = Replica()
    await replica.look()
    del replica.objects.objects[PATH]
    await replica.look()
    assert replica.accepted()


async def test_registration_that_is_not_ours_is_reported_and_left_alone() -> None:
    replica = Replica()
    theirs = {"metadata": {"name": WEBHOOK_NAME, "labels": {"app": "fluence"}}, "webhooks": []}
    replica.objects.put(PATH, theirs)
    before = copy.deepcopy(replica.objects.objects[PATH])
    await replica.look(2)
    assert replica.objects.objects[PATH] == before
    registered, problem = replica.state()
    assert not registered
    assert "isn't ours" in problem
    del replica.objects.objects[PATH]
    await replica.look()
    assert replica.state() == (True, "")


async def test_message_about_a_missing_right_says_what_to_do() -> None:
    replica = Replica()

    def no_registrations(verb: str, path: str) -> None:
        if path == PATH:
            refusing("create")(verb, path)

    replica.objects.before = no_registrations
    await replica.look()
    assert "kubectl apply -k deploy/webhook" in replica.registration.problem
    replica.objects.put(PATH, registration(TARGET))
    await replica.look()
    assert replica.registration.problem == ""
    assert replica.accepted()


async def test_lasting_problem_is_logged_once() -> None:
    replica = Replica()
    replica.objects.before = unreachable
    with capture_logs() as logs:
        await replica.look(5)
    assert sum(one["event"] == "the webhook isn't registered as it should be" for one in logs) == 1


async def test_outage_is_reported_and_the_webhook_stays_registered() -> None:
    replica = Replica()
    await replica.look()
    replica.objects.before = unreachable
    await replica.look()
    assert replica.registration.problem == "the API server can't be reached"
    assert replica.registration.registered
    replica.objects.before = lambda verb, path: None
    await replica.look()
    assert replica.registration.problem == ""


async def test_failed_write_is_reported_and_repeated() -> None:
    replica = Replica()
    await replica.look()
    stored = copy.deepcopy(replica.objects.objects[PATH])
    stored["webhooks"].clear()
    replica.objects.put(PATH, stored)
    replica.objects.before = refusing("replace", ClusterError("it is full"))
    await replica.look()
    assert replica.registration.problem == "it is full"
    replica.objects.before = refusing("replace", Conflict("modified", 409))
    await replica.look()
    replica.objects.before = lambda verb, path: None
    await replica.look()
    assert replica.accepted()


async def test_write_that_came_too_late_is_repeated_soon() -> None:
    replica = Replica()
    await replica.look()
    stored = copy.deepcopy(replica.objects.objects[PATH])
    stored["webhooks"].clear()
    replica.objects.put(PATH, stored)
    replica.objects.before = refusing("replace", Conflict("modified", 409))
    late = await replica.registration.reconcile("")
    replica.objects.before = lambda verb, path: None
    done = await replica.registration.reconcile("")
    assert (replica.registration.registered, replica.accepted()) == (True, True)
    assert late <= 1 < done


async def test_two_replicas_never_undo_each_other() -> None:
    one = Replica()
    two = Replica(objects=one.objects, clock=one.clock)
    await one.look()
    await two.look()
    assert one.accepted()
    assert two.accepted()
    written = len(one.objects.writes())
    for _ in range(10):
        await one.look()
        await two.look()
    assert len(one.objects.writes()) == written


async def test_authority_is_replaced_under_two_replicas_without_a_moment_of_distrust() -> None:
    one = Replica()
    two = Replica(objects=one.objects, clock=one.clock)
    first = b""
    for _ in range(160):
        one.clock.forward(days=8, hours=1)
        for replica in (one, two):
            await replica.look()
            assert one.accepted()
            assert not two.installed or two.accepted()
        first = first or one.registered()
    assert first not in one.registered()
    assert len({identity.bundle for identity in one.installed}) >= 2


async def test_emptied_secret_replaces_the_authority_without_a_moment_of_distrust() -> None:
    one = Replica()
    two = Replica(objects=one.objects, clock=one.clock)
    await one.look()
    await two.look()
    one.objects.put(SECRET_PATH, {**one.objects.objects[SECRET_PATH], "data": {}})
    for _ in range(3):
        for replica in (one, two):
            await replica.look()
            assert one.accepted()
            assert two.accepted()
    assert len(one.installed) == len(two.installed) == 2
    assert len(read_bundle(one.registered())) == 2
    one.clock.forward(days=1)
    await one.look()
    assert len(read_bundle(one.registered())) == 1
    assert one.accepted()
    assert two.accepted()
