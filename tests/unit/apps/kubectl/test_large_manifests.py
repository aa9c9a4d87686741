"""The time of the plugin grows in proportion to manifests: to choose and pin, and to print an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from fluence_extender.apps.kubectl import sources
from fluence_extender.apps.kubectl.pins import resolve
from fluence_extender.apps.kubectl.simulate import answer_lines
from fluence_extender.apps.kubectl.sources import ManifestSource, joined
from tests.core.growth import assert_linear
from tests.unit.apps.kubectl.test_pins import NOW, POLICY, choose

ASKS = f"metadata: {{name: a, annotations: {{{POLICY}: min-cost}}}}"
SPEC = "spec: {schedulerName: fluence, containers: [{name: main}]}"
POD = f"kind: Pod\n{ASKS}\n{SPEC}\n"


def block(indent: str) -> str:
    return (
        f"{indent}kind: Pod\n{indent}metadata:\n{indent}  annotations:\n{indent}    {POLICY}: min-cost\n"
        f"{indent}{SPEC}\n"
    )


MANIFESTS: Mapping[str, Callable[[int], str]] = {
    "documents": lambda n: "---\n".join([POD] * n),
    "a list of objects": lambda n: "kind: List\nitems:\n" + "".join(f"-\n{block('  ')}" for _ in range(n)),
    "annotations": lambda n: POD.replace(
        "annotations: {", "annotations: {" + "".join(f"a{i}: b, " for i in range(n))
    ),
    "templates": lambda n: (
        f"kind: JobSet\n{ASKS}\nspec:\n  replicatedJobs:\n"
        + "".join(f"  - {{name: a{i}, template: {{spec: {{template: {{{SPEC}}}}}}}}}\n" for i in range(n))
    ),
    "merges": lambda n: "a: &a {x: y}\n" + POD + "".join("---\n" + POD for _ in range(n)),
    "environment": lambda n: POD.replace(
        "{name: main}",
        "{name: main, env: [" + "".join(f"{{name: v{i}, value: a}}, " for i in range(n)) + "]}",
    ),
    "backslashes": lambda n: POD + "a: '" + "\\" * n + "'\n",
    "document marks": lambda n: POD + "...\n" * n,
}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_time_to_choose_and_pin_grows_with_the_manifest(kind: str) -> None:
    def pinned(text: str) -> None:
        assert resolve(ManifestSource("m.yaml", text.encode()), choose, False, NOW).selections

    assert_linear(pinned, MANIFESTS[kind], size=8)


class Copied(bytearray):
    """Bytes that are appended to; ``copied`` is how many bytes all of them have copied."""

    copied = 0

    def __iadd__(self, more: Any) -> Copied:
        Copied.copied += len(more)
        super().__iadd__(more)
        return self

    def __add__(self, more: Any) -> Copied:
        Copied.copied += len(self) + len(more)
        return Copied(super().__add__(more))


def test_each_byte_is_copied_once_to_join_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "bytearray", Copied, raising=False)
    Copied.copied = 0
    stream = joined([POD.encode() * 10] * 2000)
    assert stream.count(b"kind: Pod") == 20_000
    assert Copied.copied == len(stream)


def answer(gangs: int, alike: bool) -> dict[str, Any]:
    return {
        "gangs": [
            {
                "gang": f"default/g{number}",
                "members": 2 if alike else number + 1,
                "fits": True,
                "reason": "",
                "earliestStart": None,
                "placement": [{"node": f"n{number}", "backend": f"b{number}"}] * 2,
                "preemption": None,
                "reductions": [],
            }
            for number in range(gangs)
        ],
        "ignored": [f"Service default/s{number}" for number in range(gangs)],
        "notes": [f"note {number}" for number in range(gangs)],
    }


@pytest.mark.parametrize("alike", [True, False])
def test_time_to_print_an_answer_grows_with_its_gangs(alike: bool) -> None:
    assert_linear(lambda document: list(answer_lines(document)), lambda gangs: answer(gangs, alike))
