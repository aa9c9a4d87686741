"""A core that knows nothing but what the API server has, beside the one that runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fluence_extender.cluster.live_resources import LiveResources
from fluence_extender.gangs.controller import Controller, Ports
from fluence_extender.gangs.execution.actions import (
    Action,
    AskBudgets,
    Evict,
    FindShapes,
    Nominate,
    Requeue,
    Resume,
    Steer,
)
from fluence_extender.gangs.queue.book import AFTER_BLOCKED, BEYOND_DEPTH, BLOCKED
from fluence_extender.gangs.queue.submissions import waits
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.objects.queues import PolicyName
from tests.core.values import SEAL
from tests.core.world import World

DECISIONS = (Steer, Nominate, AskBudgets, Evict, Resume, Requeue)
"""What is done to work; all else tells somebody something."""

LIMITED = (ReasonCode.QUEUED, ReasonCode.OVER_USER_LIMIT, ReasonCode.OVER_QUOTA)

QUIET = 3
"""So many steps in which nothing is left to be done end it; a running core takes one each second."""


@dataclass(frozen=True)
class Standing:
    """What a core knows of the queue: gangs in order, why each waits, where it is placed, when it starts."""

    line: list[str]
    reasons: Mapping[str, str]
    placed: Mapping[str, list[str]]
    starts: Mapping[str, float]
    queues: Mapping[str, object]


def standing(core: Controller) -> Standing:
    """Return what the queue of a core is now."""
    # Gangs that no turn helps stand in no line, but others may keep them from being tried after a restart.
    waiting = sorted(filter(waits, core.registry.gangs.values()), key=core.queue.turns.of)
    policy = core.queue.settings.policy
    all_tried = policy.policy is not PolicyName.FCFS and policy.queue_depth is None
    return Standing(
        [str(gang.key) for gang in waiting],
        {str(gang.key): _why(gang.reason, all_tried) for gang in waiting},
        {
            str(key): sorted(one.assignment.node for one in gang.alive() if one.assignment is not None)
            for key, gang in core.registry.gangs.items()
        },
        {str(key): round(start, 3) for key, start in core.queue.reserved_starts().items()},
        {name: core.queue.admission.account(name) for name in sorted(core.queue.settings.made)},
    )


def _why(reason: Reason | None, all_tried: bool) -> str:
    """Return why a gang waits. Of lacking room and limits that are reached, it was told the one found last.

    Unless ``all_tried``, a gang that others keep from being tried isn't found to be unsatisfiable, or was before.
    """
    if reason is None:
        return ""
    lacks = reason.code in (*BLOCKED, *LIMITED) or reason in (AFTER_BLOCKED, BEYOND_DEPTH)
    lacks = lacks or (reason.code is ReasonCode.UNSATISFIABLE and not all_tried)
    return "it lacks room, or its queue has reached a limit" if lacks else str(reason)


def anew(world: World) -> tuple[Controller, list[Action]]:
    """Start a core on what the API server has at this moment; return it, and what it decides to do."""
    ledger = world.engine.ledger(world.policy)
    core = Controller(
        ledger,
        world.limits,
        clock=world.loop.time,
        calendar=world.loop.time,
        ports=Ports(
            read_resources=LiveResources(lambda _, why: None).read,
            chooser=world.engine.chooser(ledger, world.policy),
        ),
    )
    core.registry.seal = SEAL
    world.cluster.watch(core.observe)
    world.cluster.unwatch(core.observe)
    expected_pods, first_pods = core.lifecycle.expected_pods, world.cluster.first_pods
    for job in expected_pods.without_shapes():
        expected_pods.shapes_known(job, first_pods[job.uid])
    core.start()
    decided: list[Action] = []
    quiet = 0
    while quiet < QUIET:
        actions = core.step()
        asked = [one.job for one in actions if isinstance(one, FindShapes)]
        for job in asked:
            expected_pods.shapes_known(job, first_pods[job.uid])
        decided += [one for one in actions if isinstance(one, DECISIONS)]
        quiet = 0 if asked or core.lifecycle.restless else quiet + 1
    return core, decided
