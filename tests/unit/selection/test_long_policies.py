"""The time of a choice grows in proportion to the backends, and to the policy, which users write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

import pytest

from fluence_extender.selection.backend import Backend
from fluence_extender.selection.errors import SelectionError
from fluence_extender.selection.pipeline import Sources, select
from fluence_extender.selection.request import read_request
from tests.core.growth import assert_linear
from tests.unit.apps.kubectl.manifests import PREFIX

Asked = tuple[dict[str, str], Sources]


def backends(count: int) -> Sources:
    offers = tuple(
        Backend(f"b{number}", {"cost_usd": number % 7, "qubits": number}) for number in range(count)
    )
    return Sources(offers, offers)


def names(count: int) -> str:
    return ",".join(f"b{number}" for number in range(count))


ASKED: Mapping[str, Callable[[int], Asked]] = {
    "backends": lambda n: ({"policy": "require:min_qubits=2,max-qubits,min-cost"}, backends(n)),
    "candidates": lambda n: ({"policy": "min-cost", "candidates": names(n)}, backends(n)),
    "unknown candidates": lambda n: ({"policy": "min-cost", "candidates": names(n) + ",x" * n}, backends(n)),
    "steps": lambda n: ({"policy": ",".join(["max-qubits"] * n)}, backends(2)),
    "constraints": lambda n: (
        {"policy": "min-cost", "constraints": ",".join(f"max_a{i}={i}" for i in range(n))},
        backends(2),
    ),
    "no policy at all": lambda n: ({"policy": "," * n + "-" * n}, backends(2)),
    "an unknown step": lambda n: ({"policy": "min" * n}, backends(2)),
    "a long number": lambda n: ({"policy": f"require:min_qubits={'9' * n}"}, backends(2)),
}


@pytest.mark.parametrize("kind", ASKED)
def test_time_to_choose_grows_with_the_policy_and_the_backends(kind: str) -> None:
    def choose(asked: Asked) -> None:
        annotations, sources = asked
        with suppress(SelectionError):
            request = read_request({f"{PREFIX}select-{key}": text for key, text in annotations.items()}, [])
            select(request, sources)

    assert_linear(choose, ASKED[kind])
