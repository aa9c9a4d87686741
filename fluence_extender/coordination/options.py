"""Read the sidecar's options from its environment and from annotations of its pod.

Invariant: an option that can't be read is reported and keeps its default, because a sidecar that doesn't start releases
no consumers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fluence_extender.model.coordination import (
    DISCOVERY_TIMEOUT_ANNOTATION,
    GANG_GROUP_VARIABLE,
    NAMESPACE_VARIABLE,
    OBSERVE_VARIABLE,
    POD_NAME_VARIABLE,
    POD_UID_VARIABLE,
    POLL_INTERVAL_ANNOTATION,
)
from fluence_extender.model.notation import parse_duration

GATED_PODS_VARIABLE = "FLUENCE_GATED_PODS"
DISCOVERY_VARIABLE = "FLUENCE_TASK_DISCOVERY_TIMEOUT"
POLL_VARIABLE = "FLUENCE_POLL_INTERVAL"
UNGATE_VARIABLE = "FLUENCE_UNGATE_TIMEOUT"
SILENCE_VARIABLE = "FLUENCE_TASK_SILENCE_TIMEOUT"
LOOK_EVERY = 10.0
CALL_LIMIT = 60.0


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one sidecar. All times are in seconds.

    ``discovery``: after the pod's start, how long consumers wait for a task to be found. ``silence``: how long they
    wait without news of a found task. ``poll``: between two reads of a task's status. ``look``: between two searches
    for tasks, and for late consumers. ``ungate``: how long the sidecar keeps trying to remove gates once it has to
    stop. ``call``: for one call of a provider. ``gated`` are the names of the consumers, if their group doesn't name
    them.
    """

    pod_uid: str
    pod_name: str
    namespace: str = "default"
    gang_group: str = ""
    observes: bool = False
    gated: tuple[str, ...] = ()
    discovery: float = 86_400.0
    poll: float = 30.0
    ungate: float = 120.0
    silence: float = 3_600.0
    look: float = LOOK_EVERY
    call: float = CALL_LIMIT


def read_options(environ: Mapping[str, str]) -> tuple[Options, list[str]]:
    """Return the options, and what couldn't be read. Raises `ValueError` if the pod isn't named."""
    missing = [name for name in (POD_UID_VARIABLE, POD_NAME_VARIABLE) if not environ.get(name)]
    if missing:
        raise ValueError(f"{' and '.join(missing)} must be set: they say which pod this sidecar belongs to")
    options = Options(environ[POD_UID_VARIABLE], environ[POD_NAME_VARIABLE])
    problems: list[str] = []
    times = {
        "discovery": environ.get(DISCOVERY_VARIABLE, ""),
        "poll": environ.get(POLL_VARIABLE, ""),
        "ungate": environ.get(UNGATE_VARIABLE, ""),
        "silence": environ.get(SILENCE_VARIABLE, ""),
    }
    gated = tuple(name.strip() for name in environ.get(GATED_PODS_VARIABLE, "").split(",") if name.strip())
    options = replace(
        options,
        namespace=environ.get(NAMESPACE_VARIABLE) or options.namespace,
        gang_group=environ.get(GANG_GROUP_VARIABLE, ""),
        observes=environ.get(OBSERVE_VARIABLE, "").lower() == "true",
        gated=gated,
    )
    return _with_times(options, times, problems), problems


def with_annotations(options: Options, annotations: Mapping[str, str]) -> tuple[Options, list[str]]:
    """Return ``options`` changed by the pod's own annotations, and what of these couldn't be read."""
    times = {
        "discovery": annotations.get(DISCOVERY_TIMEOUT_ANNOTATION, ""),
        "poll": annotations.get(POLL_INTERVAL_ANNOTATION, ""),
    }
    problems: list[str] = []
    return _with_times(options, times, problems), problems


def _with_times(options: Options, times: Mapping[str, str], problems: list[str]) -> Options:
    read: dict[str, float] = {}
    for name, text in times.items():
        seconds = parse_duration(text) if text else None
        if seconds is not None:
            read[name] = seconds
        elif text:
            problems.append(
                f"{name} {text!r} isn't a duration like 300, 90s or 1h30m, so it stays {getattr(options, name):g} s"
            )
    changed = replace(options, **read)  # type: ignore[arg-type]
    return replace(changed, look=min(changed.look, changed.poll))
