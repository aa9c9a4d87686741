"""What a pod requires of its devices is read from its annotations once."""

from __future__ import annotations

from collections.abc import ItemsView
from dataclasses import replace

from fluence_extender.model.names import REQUIRE_PREFIX
from fluence_extender.model.pod import Pod


class CountedAnnotations(dict[str, str]):
    """Annotations that count how often somebody goes through them."""

    reads = 0

    def items(self) -> ItemsView[str, str]:  # type: ignore[override]
        self.reads += 1
        return super().items()


def test_annotations_of_a_pod_are_gone_through_once() -> None:
    annotations = CountedAnnotations({f"{REQUIRE_PREFIX}b": "2", "other": "x", f"{REQUIRE_PREFIX}a": "1"})
    pod = Pod("ns", "p", "u", annotations=annotations)
    assert [list(pod.requires.items()) for _ in range(3)] == [[("a", "1"), ("b", "2")]] * 3
    assert annotations.reads == 1


def test_pod_that_requires_nothing_is_gone_through_once() -> None:
    annotations = CountedAnnotations({f"{REQUIRE_PREFIX}vendor": ""})
    pod = Pod("ns", "p", "u", annotations=annotations)
    assert [dict(pod.requires) for _ in range(3)] == [{}] * 3
    assert annotations.reads == 1


def test_pod_with_other_annotations_requires_what_they_say() -> None:
    pod = Pod("ns", "p", "u", annotations={f"{REQUIRE_PREFIX}vendor": "ibm"})
    assert pod.requires == {"vendor": "ibm"}
    changed = replace(pod, annotations={f"{REQUIRE_PREFIX}vendor": "dwave"})
    assert changed.requires == {"vendor": "dwave"}
    assert replace(pod, annotations=dict(pod.annotations)) == pod
