"""The sidecar's options come from its environment and its pod's annotations."""

from __future__ import annotations

import pytest

from fluence_extender.coordination.options import Options, read_options, with_annotations
from fluence_extender.model.coordination import DISCOVERY_TIMEOUT_ANNOTATION, POLL_INTERVAL_ANNOTATION

OWN = {"FLUENCE_POD_UID": "u", "FLUENCE_POD_NAME": "p"}


def test_pod_must_be_named() -> None:
    for environ in ({}, {"FLUENCE_POD_UID": "u"}, {**OWN, "FLUENCE_POD_NAME": ""}):
        with pytest.raises(ValueError, match="must be set"):
            read_options(environ)


def test_everything_else_has_a_default() -> None:
    options, problems = read_options(OWN)
    assert options == Options("u", "p")
    assert not problems


def test_environment_is_read() -> None:
    options, problems = read_options(
        {
            **OWN,
            "FLUENCE_NAMESPACE": "quantum",
            "FLUENCE_GANG_GROUP": "g",
            "FLUENCE_OBSERVE": "true",
            "FLUENCE_GATED_PODS": " a, b,,",
            "FLUENCE_TASK_DISCOVERY_TIMEOUT": "300",
            "FLUENCE_POLL_INTERVAL": "5s",
            "FLUENCE_UNGATE_TIMEOUT": "2m",
            "FLUENCE_TASK_SILENCE_TIMEOUT": "1h",
        }
    )
    assert not problems
    assert options == Options("u", "p", "quantum", "g", True, ("a", "b"), 300.0, 5.0, 120.0, 3600.0, look=5.0)


@pytest.mark.parametrize("text", ["soon", "-1", "0", "nan", "1e9", "5 minutes"])
@pytest.mark.parametrize(
    ("variable", "name"), [("FLUENCE_TASK_DISCOVERY_TIMEOUT", "discovery"), ("FLUENCE_POLL_INTERVAL", "poll")]
)
def test_invalid_duration_is_reported_and_the_default_counts(variable: str, name: str, text: str) -> None:
    options, problems = read_options({**OWN, variable: text})
    assert getattr(options, name) == getattr(Options("u", "p"), name)
    assert len(problems) == 1
    assert name in problems[0]
    assert text in problems[0]


@pytest.mark.parametrize("text", ["True", "true", "TRUE"])
def test_observing_ignores_upper_and_lower_case(text: str) -> None:
    assert read_options({**OWN, "FLUENCE_OBSERVE": text})[0].observes


@pytest.mark.parametrize("text", ["", "false", "1", "yes"])
def test_other_values_do_not_mean_observing(text: str) -> None:
    assert not read_options({**OWN, "FLUENCE_OBSERVE": text})[0].observes


def test_annotations_of_the_pod_come_before_the_environment() -> None:
    options, _ = read_options({**OWN, "FLUENCE_TASK_DISCOVERY_TIMEOUT": "300"})
    notes = {DISCOVERY_TIMEOUT_ANNOTATION: "2h", POLL_INTERVAL_ANNOTATION: "1s"}
    changed, problems = with_annotations(options, notes)
    assert (changed.discovery, changed.poll, changed.look) == (7200.0, 1.0, 1.0)
    assert not problems


def test_unreadable_annotations_change_nothing() -> None:
    options, _ = read_options(OWN)
    changed, problems = with_annotations(options, {DISCOVERY_TIMEOUT_ANNOTATION: "for ever"})
    assert changed == options
    assert "for ever" in problems[0]
