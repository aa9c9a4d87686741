"""Try the pods of a question: what would the API server make of them, or why would it refuse them?

Only a dry run knows what defaults, LimitRanges, classes, policies and webhooks add to a pod. Pods that are made of
equal templates are tried once. Objects in the question itself, such as a PriorityClass, don't exist in the cluster yet,
so what they add is added here.

Invariant: a trial changes nothing, and it says of each pod what its creation would say, as far as it doesn't depend on
the user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from fluence_extender.apiserver.defaults import AdmissionObjects, PodRefused, with_defaults
from fluence_extender.cluster.errors import (
    ClusterError,
    Gone,
    NoAnswer,
    PodsUnknown,
    TooManyRequests,
    Unauthenticated,
)
from fluence_extender.cluster.port import TryPod
from fluence_extender.kinds.pod_sets import BadManifest, Json, PodSet, trial_of
from fluence_extender.whatif.documents import as_json, reading

MOST_TRIALS = 200
"""The most different templates of one question."""

AT_ONCE = 8
"""The most trials under way at the same time."""

NO_ANSWER = (NoAnswer, TooManyRequests, Unauthenticated)
"""The failures of a trial that say nothing about the pod."""


@dataclass(frozen=True, slots=True)
class Template:
    """Pods of one object in the question that differ in nothing that a trial could show.

    ``owner`` names the object. ``fault`` is the sentence that says why the API server refuses the object
    itself, "" if it doesn't.
    """

    owner: str
    namespace: str
    pods: PodSet
    fault: str = ""

    @property
    def key(self) -> bytes:
        """What a trial depends on. The name that the pod gives itself has no effect."""
        spec = {key: value for key, value in self.pods.template["spec"].items() if key != "hostname"}
        return as_json({"namespace": self.namespace, **self.pods.template, "spec": spec})


@dataclass(frozen=True, slots=True)
class PodTrial:
    """What would become of the pods of a template.

    ``added`` are the metadata and spec that each of them would have; ``refusal`` is why they wouldn't be created, ""
    if they would. ``notes`` are what the API server and its webhooks warn of, and what isn't known.
    """

    added: Json
    refusal: str = ""
    notes: tuple[str, ...] = ()


async def try_templates(
    templates: Sequence[Template], objects: AdmissionObjects, try_pod: TryPod
) -> list[PodTrial]:
    """Return the trial of each template. ``objects`` are those of the question.

    Raise `BadManifest` for too many different templates, and `ClusterError` if the API server can't be asked.
    """
    different: dict[bytes, Template] = {}
    keys = []
    for one in templates:
        keys.append(one.key)
        different.setdefault(keys[-1], one)
    if len(different) > MOST_TRIALS:
        raise BadManifest(
            f"{len(different)} different pod templates, of which at most {MOST_TRIALS} are tried at once: ask about "
            "them in several questions"
        )
    turns = asyncio.Semaphore(AT_ONCE)

    async def tried(template: Template) -> PodTrial:
        async with turns:
            with reading(template.owner):
                return await _try(template, objects, try_pod)

    trials = await asyncio.gather(*map(tried, different.values()))
    known = dict(zip(different, trials, strict=True))
    return [known[key] for key in keys]


async def _try(template: Template, objects: AdmissionObjects, try_pod: TryPod) -> PodTrial:
    pod = template.pods.first(template.namespace)
    if template.fault:
        return PodTrial(pod, template.fault)
    try:
        ranged = objects.within_ranges(with_defaults(pod))
        made, notes = await _made(template, ranged, objects, try_pod)
        return PodTrial(_with_own_classes(made, pod, objects), "", notes)
    except NO_ANSWER:
        raise
    except ClusterError as error:
        why = error.words.replace(trial_of(pod)["metadata"]["name"], pod["metadata"]["name"])
    except PodRefused as refused:
        why = str(refused)
    pods = template.owner if template.owner.startswith("Pod ") else f"the pods of {template.owner}"
    return PodTrial(pod, f"the API server refuses {pods}: {why}")


async def _made(
    template: Template, pod: Json, objects: AdmissionObjects, try_pod: TryPod
) -> tuple[Json, tuple[str, ...]]:
    """Return the pod as the API server would make it, and what is to be noted; as it is if it can't be tried."""
    manifest = trial_of({**pod, "spec": objects.without_own_classes(pod["spec"])})
    try:
        answer = await try_pod(manifest, f"try a pod of {template.owner}")
    except (Gone, PodsUnknown) as error:
        if not _untried(error):
            raise
        return pod, (f"what admission adds to the pods isn't known: {error.words}",)
    return msgspec.json.decode(answer.raw), answer.warnings


def _untried(error: ClusterError) -> bool:
    """Return whether the pod was not tried: its namespace doesn't exist yet, or a webhook allows no dry run."""
    return isinstance(error, PodsUnknown) or error.words.startswith("namespaces ")


def _with_own_classes(made: Json, pod: Json, objects: AdmissionObjects) -> Json:
    """Return the tried pod with the names of its classes, and with what those of the question add."""
    return {**made, "spec": objects.with_classes(objects.restored(made["spec"], pod["spec"]))}
