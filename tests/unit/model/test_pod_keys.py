"""Labels and annotations under our domain that can't count are told, with what was probably meant."""

from __future__ import annotations

import pytest

from fluence_extender.model.pod_keys import ANNOTATIONS, LABELS, TEMPLATED, TIMES, ineffective, remarks

OURS = "fluence.flux-framework.org/"


@pytest.mark.parametrize(
    ("labels", "annotations", "told"),
    [
        (
            {},
            {"groupsize": "3"},
            f"annotation {OURS}groupsize does nothing: did you mean the annotation {OURS}group-size?",
        ),
        (
            {},
            {"Group_Size": "3"},
            f"annotation {OURS}Group_Size does nothing: did you mean the annotation {OURS}group-size?",
        ),
        ({}, {"group": "g"}, f"annotation {OURS}group does nothing: write it under metadata.labels"),
        (
            {"group-size": "3"},
            {},
            f"label {OURS}group-size does nothing: write it under metadata.annotations",
        ),
        ({"gruop": "g"}, {}, f"label {OURS}gruop does nothing: did you mean the label {OURS}group?"),
        (
            {"require-vendor": "ibm"},
            {},
            f"label {OURS}require-vendor does nothing: write it under metadata.annotations",
        ),
        (
            {},
            {"zzz": ""},
            f"annotation {OURS}zzz does nothing: there is no such key; kubectl fluence explain lists all",
        ),
        (
            {},
            {"duration": "soon"},
            f"annotation {OURS}duration is 'soon': it must be a time of more than 0 such as 90, 90s, 15m or 1h30m",
        ),
        (
            {},
            {"schedule-timeout": "0"},
            f"annotation {OURS}schedule-timeout is '0': it must be a time of more than 0 such as 90, 90s, 15m or 1h30m",
        ),
    ],
)
def test_what_does_nothing_is_told_with_what_to_write(
    labels: dict[str, str], annotations: dict[str, str], told: str
) -> None:
    said = remarks(
        {OURS + key: text for key, text in labels.items()},
        {OURS + key: text for key, text in annotations.items()},
    )
    assert list(said) == [told]


def test_what_counts_and_what_is_others_is_not_told() -> None:
    annotations = {key: "1h30m" if key in TIMES else "3" for key in ANNOTATIONS}
    annotations |= {f"{OURS}require-vendor": "ibm", f"{OURS}attr-vendor": "ibm"}
    annotations |= {f"demo.{OURS}run-for": "5s", f"producer.{OURS}backend": "fez", "example.com/group": "a"}
    labels = {**dict.fromkeys(LABELS, "g"), "app": "x", "group": "g"}
    assert list(remarks(labels, annotations)) == []


def test_what_makes_pods_is_told_of_the_keys_that_only_its_pods_could_have() -> None:
    own = [f"{OURS}group", f"{OURS}group-size", f"{OURS}select-policy", "app"]
    assert list(ineffective("Job", own, [f"{OURS}group-size"])) == [
        f"{OURS}group does nothing on a Job itself: write it under the metadata of its pod template"
    ]
    assert f"{OURS}select-policy" not in TEMPLATED
