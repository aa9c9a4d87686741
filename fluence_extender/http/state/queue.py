"""The queue in the state API: the queues, the gangs in line, and what is kept free."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from fluence_extender.api.queues import QueueEntry, QueueSummary, ReservedNodes
from fluence_extender.api.values import moment
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.queue.book import GangReservation, Standing
from fluence_extender.gangs.queue.fair_shares import UNABLE_TO_START
from fluence_extender.gangs.queue.settings import covered
from fluence_extender.gangs.queue.submissions import LATEST
from fluence_extender.http.state.gangs import gang_label, list_key
from fluence_extender.http.state.listings import Items, Key, Listing
from fluence_extender.model.access import CallerSight
from fluence_extender.model.node import Node
from fluence_extender.model.quantity import written_amount
from fluence_extender.model.reason import ReasonCode
from fluence_extender.objects.queues import NodeReservation, Queue

NOT_IN_TURN = UNABLE_TO_START | {ReasonCode.OVER_USER_LIMIT}
"""The reasons of gangs that wouldn't start even as the first in line."""


def queue_listing(controller: Controller) -> Listing[QueueSummary]:
    """Return all queues by name."""
    settings = controller.queue.settings

    def read() -> Items[QueueSummary]:
        heads: dict[str, Standing] = {}
        for one in controller.queue.line():
            if one.reason is None or one.reason.code not in NOT_IN_TURN:
                heads.setdefault(one.queue, one)
        waiting, oldest = controller.queue.waiting(), controller.queue.oldest()

        def make(key: Key) -> QueueSummary | None:
            queue = settings.queues.get(key[0])
            if queue is None:
                return None
            line = heads.get(queue.name), waiting[queue.name], oldest.get(queue.name)
            return _summary(controller, queue, *line)

        return Items(sorted((name,) for name in settings.queues), make)

    return Listing(_revision(controller), read)


def line_listing(controller: Controller, sight: CallerSight) -> Listing[QueueEntry]:
    """Return the gangs in line, in the order in which they are served, in words for ``sight``."""

    def read() -> Items[QueueEntry]:
        found: dict[Key, Standing] = {}
        for one in controller.queue.line():
            gang = controller.registry.gangs.get(one.gang)
            if gang is not None:
                found[list_key(gang.key)] = one

        def make(key: Key) -> QueueEntry | None:
            standing = found[key]
            gang = controller.registry.gangs.get(standing.gang)
            return None if gang is None else _entry(controller, standing, gang, sight)

        return Items(list(found), make)

    return Listing(_revision(controller), read)


def reservation_listing(controller: Controller, with_nodes: bool) -> Listing[ReservedNodes]:
    """Return what is kept free: first for gangs, by their names, then by administrators.

    The nodes of the latter are named only if ``with_nodes`` is set.
    """

    def read() -> Items[ReservedNodes]:
        gangs: dict[Key, GangReservation] = {}
        for one in controller.queue.reservations():
            gangs["gang", *list_key(one.gang)] = one
        reservations = controller.queue.settings.reservations

        def make(key: Key) -> ReservedNodes | None:
            if key[0] == "gang":
                return _for_gang(gangs[key])
            found = reservations.get(key[2])
            if found is None:
                return None
            return _by_administrator(found, controller.eligibility.nodes.values(), with_nodes)

        return Items(
            sorted([*gangs, *(("reservation", "", name, "", "", "") for name in reservations)]), make
        )

    return Listing(f"{controller.revision}-{_revision(controller)}-{'nodes' * with_nodes}", read)


def _revision(controller: Controller) -> str:
    settings = controller.queue.settings.revision
    return f"{controller.registry.revision}-{controller.ledger.version}-{settings}"


def _summary(
    controller: Controller, queue: Queue, head: Standing | None, waiting: int, oldest: float | None
) -> QueueSummary:
    limits = queue.limits
    admission = controller.lifecycle.admission
    account, tree = admission.account(queue.name), admission.quotas.use.tree
    guaranteed = tree.branch(queue.name).guaranteed if admission.quotas.active else {}
    return QueueSummary(
        name=queue.name,
        stop=queue.stop.value,
        waiting=waiting,
        running=admission.usage.running((queue.name, None)),
        limits={
            name: most
            for name, most in (
                ("running", limits.running),
                ("queued", limits.queued),
                ("runningPerUser", limits.running_per_user),
                ("queuedPerUser", limits.queued_per_user),
            )
            if most
        },
        parent=queue.parent,
        weight=1.0 if queue.weight is None else queue.weight,
        guaranteed={kind: written_amount(kind, amount) for kind, amount in sorted(guaranteed.items())},
        limit={kind: written_amount(kind, amount) for kind, amount in sorted(queue.quota.limit.items())},
        used=account["used"],
        borrowed=account["borrowed"],
        share=account["share"],
        head=str(head.gang) if head is not None else "",
        expected_start=_moment(head.expected_start if head is not None else None),
        oldest=_moment(oldest),
        problems=tuple(controller.queue.problems(queue)),
        has_object=queue.name in controller.queue.settings.made,
    )


def _entry(controller: Controller, standing: Standing, gang: Gang, sight: CallerSight) -> QueueEntry:
    reason = standing.reason.shown if standing.reason is not None else None
    place = controller.lifecycle.admission.usage.place(gang.key)
    return QueueEntry(
        position=standing.position,
        namespace=gang.key.namespace,
        name=gang_label(gang.key),
        convention=gang.key.convention,
        queue=standing.queue,
        user=place.user if place is not None else controller.lifecycle.admission.user_of(gang),
        priority=gang.priority,
        created=_moment(gang.created[0] or None),
        held=standing.held,
        reason=sight.wording(reason.text, reason.with_names) if reason is not None else "",
        why=reason.code.value if reason is not None else "",
        expected_start=_moment(standing.expected_start),
        reserved_nodes=standing.reserved_nodes,
    )


def _for_gang(one: GangReservation) -> ReservedNodes:
    return ReservedNodes(
        kind="gang",
        namespace=one.gang.namespace,
        name=gang_label(one.gang),
        start=_moment(one.start),
        end=_moment(one.end),
        count=len(one.nodes),
        nodes=one.nodes,
        queues=(),
        reason="",
    )


def _by_administrator(one: NodeReservation, nodes: Iterable[Node], with_nodes: bool) -> ReservedNodes:
    names = sorted(covered(one, nodes))
    return ReservedNodes(
        kind="reservation",
        namespace="",
        name=one.name,
        start=moment(one.start),
        end=moment(min(one.end, LATEST)),
        count=len(names),
        nodes=tuple(names) if with_nodes else (),
        queues=tuple(sorted(one.queues)),
        reason=one.reason,
    )


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else moment(seconds)
