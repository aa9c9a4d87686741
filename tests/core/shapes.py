"""What pods ask for and nodes offer in histories."""

from __future__ import annotations

from fluence_extender.model.resources import Resources
from tests.core.values import GIB


def requests(millicores: int, gib: int, gpus: int = 0) -> Resources:
    return Resources({"cpu": millicores, "memory": gib * GIB, "pods": 1, "nvidia.com/gpu": gpus})


def absurd(memory: int) -> tuple[Resources, ...]:
    """What nodes may offer that makes no sense: nothing at all, places alone, no cores, hardly any beside so much."""
    return (
        Resources(),
        Resources({"pods": 3}),
        Resources({"memory": memory, "pods": 6}),
        Resources({"cpu": 3000, "memory": memory, "pods": 6}),
    )


def allocatable(number: int, gib: int, gpus: int) -> Resources:
    return Resources({"cpu": number * 1000, "memory": gib * GIB, "pods": 6, "nvidia.com/gpu": gpus})
