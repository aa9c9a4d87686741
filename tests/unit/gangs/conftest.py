"""Worlds that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fluence_extender.model.gang import HistoryKind
from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.pod import Owner, Pod
from tests.core.invariants import check
from tests.core.manifests import Manifest, decoded
from tests.core.values import asks
from tests.core.world import World

MakeWorld = Callable[..., World]


@pytest.fixture
def world() -> Iterator[MakeWorld]:
    """Make worlds; at the end of the test each must be consistent."""
    made: list[World] = []

    def make(*objects: Any, **options: Any) -> World:
        made.append(World(*objects, **options))
        return made[-1]

    yield make
    for one in made:
        one.advance(0.1)
        check(one)
        one.close()


def give_up(world: World) -> None:
    """Let the time go by after which a gang that was begun and can't be completed is evicted."""
    assert world.limits.completion is not None
    world.advance(world.limits.completion + 5)


def gang(world: World, name: str, *cpu: int, size: int | None = None, **fields: Any) -> list[Pod]:
    """Create the members of a labelled gang, gated, one for each amount of ``cpu`` (millicores)."""
    fields.setdefault("gates", (GATE,))
    return [
        world.pod(
            f"{name}-{number}",
            labels={GROUP_LABEL: name},
            annotations={GROUP_SIZE_ANNOTATION: str(len(cpu) if size is None else size)},
            requests=asks(millicores, 1),
            **fields,
        )
        for number, millicores in enumerate(cpu)
    ]


def put(w: World, body: Manifest, name: str, owner: Owner | None = None) -> Pod:
    """Create the pod of a manifest, gated, under ``name``; ``owner`` in place of the one that it says."""
    pod = decoded(body)
    return w.pod(
        name,
        labels=pod.labels,
        annotations=pod.annotations,
        owner=owner or pod.owner,
        gates=(GATE,),
        requests=asks(500),
    )


def announced(w: World, name: str) -> list[str]:
    """Return the texts of Events that stand in the gang's history."""
    return [one.detail for one in w.gang(name).history.entries if one.kind is HistoryKind.ANNOUNCED]
