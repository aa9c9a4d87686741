"""Choose a backend for each object of a manifest that asks for one, and pin the object and its pods to it.

A policy on an object counts for all its pods; one on a pod template counts for that template's pods. The pin is written
where the policy is, and on each template that the policy counts for: pods carry only the annotations of their template.

Invariant: a document in which nothing is pinned comes out byte for byte as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from fluence_extender.apps.kubectl.errors import CommandError
from fluence_extender.apps.kubectl.manifests import (
    Manifest,
    objects,
    read_documents,
    split_documents,
    written,
)
from fluence_extender.apps.kubectl.sources import ManifestSource, text_of
from fluence_extender.apps.kubectl.workloads import ManifestWorkload, annotations_of, workload
from fluence_extender.model.names import (
    REQUIRE_BACKEND_ANNOTATION,
    SCHEDULER_NAME,
    SELECT_POLICY_ANNOTATION,
    SELECT_PREFIX,
    SELECT_RESULT_ANNOTATION,
)
from fluence_extender.selection.errors import SelectionError
from fluence_extender.selection.pipeline import Selection
from fluence_extender.selection.record import select_result
from fluence_extender.selection.request import SelectionRequest, read_request, unknown_annotations

Choose = Callable[[str, SelectionRequest], Selection]
"""Label of an object, its request -> the choice. Raises `SelectionError` or `CommandError`."""

_TRIGGERS = tuple(SELECT_PREFIX.split("/"))
"""Texts that a document contains if it asks for a backend. JSON may escape the slash between them."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A manifest with its pins. ``selections`` has the label of each object, ``notes`` are for the user."""

    content: bytes
    selections: tuple[tuple[str, Selection], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Pass:
    """One pass over one document: what it needs, and the choices and notes that it collects."""

    choose: Choose
    force: bool
    now: datetime
    selections: list[tuple[str, Selection]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def select(self, label: str, request: SelectionRequest) -> Selection:
        try:
            selection = self.choose(label, request)
        except SelectionError as error:
            raise CommandError(f"{label}: selection failed: {error}") from None
        self.selections.append((label, selection))
        return selection


def resolve(source: ManifestSource, choose: Choose, force: bool, now: datetime) -> Resolved:
    """Choose for each object in ``source``; content without a request comes back as it is.

    ``force`` chooses anew for objects that are pinned already. Raise `CommandError`.
    """
    # Most manifests have no request. They needn't even be parsed.
    if not all(trigger.encode() in source.content for trigger in _TRIGGERS):
        return Resolved(source.content)
    done: list[str] = []
    selections: list[tuple[str, Selection]] = []
    notes: list[str] = []
    line = 1
    for document in split_documents(text_of(source)):
        state = _Pass(choose, force, now)
        requests = all(trigger in document for trigger in _TRIGGERS)
        done.append(_resolve_document(state, document, source.name, line) if requests else document)
        selections += state.selections
        notes += state.notes
        line += document.count("\n")
    return Resolved("".join(done).encode(), tuple(selections), tuple(notes))


def _resolve_document(state: _Pass, document: str, name: str, line: int) -> str:
    values = read_documents(document, name, line)
    for value in values:
        for manifest in objects(value):
            _resolve_object(state, workload(manifest))
    return written(values, document) if state.selections else document


def _resolve_object(state: _Pass, found: ManifestWorkload) -> None:
    places = (found.manifest, *found.templates)
    if not any(map(_has_policy, places)):
        for one in places:
            state.notes += [f"{found.label}: {note}" for note in unknown_annotations(annotations_of(one))]
        return
    if not found.ours:
        state.notes.append(
            f"{found.label} has a select-policy and isn't for schedulerName {SCHEDULER_NAME}; left as it is"
        )
        return
    own = annotations_of(found.manifest)
    with_policy = [_has_policy(one) for one in found.templates]
    if _has_policy(found.manifest):
        others = [one for one, has in zip(found.templates, with_policy, strict=True) if not has]
        _resolve_policy(state, found.label, found.manifest, others, own, found.variables())
    inherited = {key: value for key, value in own.items() if key.startswith(SELECT_PREFIX)}
    for number, (template, has) in enumerate(zip(found.templates, with_policy, strict=True), start=1):
        if has:
            label = f"{found.label} template" + (f" {number}" if len(found.templates) > 1 else "")
            annotations = {**inherited, **annotations_of(template)}
            _resolve_policy(state, label, template, (), annotations, found.variables(template))


def _resolve_policy(
    state: _Pass,
    label: str,
    holder: Manifest,
    templates: Sequence[Manifest],
    annotations: Mapping[str, str],
    variables: list[str],
) -> None:
    """Choose by the policy on ``holder``, and pin ``holder`` and the templates that the policy counts for."""
    pins = [annotations_of(one).get(REQUIRE_BACKEND_ANNOTATION, "") for one in (holder, *templates)]
    pinned = next((pin for pin in pins if pin), "")
    if pinned and not state.force:
        note = f'{label} already pinned to "{pinned}"; skipping selection (use --force-select to override)'
        if not all(pins):
            note += "; not all of its pods carry the pin"
        state.notes.append(note)
        return
    selection = state.select(label, read_request(annotations, variables))
    pin = {REQUIRE_BACKEND_ANNOTATION: selection.chosen}
    _annotate(holder, {**pin, SELECT_RESULT_ANNOTATION: select_result(selection, state.now)}, label)
    for template in templates:
        _annotate(template, pin, label)


def _has_policy(place: Manifest) -> bool:
    return bool(annotations_of(place).get(SELECT_POLICY_ANNOTATION, "").strip())


def _annotate(place: Manifest, values: Mapping[str, str], label: str) -> None:
    """Give an object or a pod template these annotations. Raise `CommandError`."""
    for key in ("metadata", "annotations"):
        if place.get(key) is None:
            place[key] = {}
        place = place[key]
        if not isinstance(place, dict):
            raise CommandError(f"{label}: {key} are not a map; write them as KEY: VALUE")
    place.update(values)
