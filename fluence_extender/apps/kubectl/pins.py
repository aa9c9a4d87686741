"""Choose a backend for each object of a manifest that asks for one, and pin the object and its pods to it.

A policy on an object counts for all its pods; one on a pod template counts for that template's pods. The pin is written
where the policy is, and on each template that the policy counts for: pods carry only the annotations of their template.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from yaml.nodes import MappingNode

from fluence_extender.apps.kubectl.edits import ManifestEdit, annotate, edited
from fluence_extender.apps.kubectl.errors import CommandError
from fluence_extender.apps.kubectl.manifests import child, objects, read_documents, split_documents
from fluence_extender.apps.kubectl.sources import ManifestSource
from fluence_extender.apps.kubectl.workloads import Workload, annotations_of, workload
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
    """One pass over one document: what it needs, and the edits, choices and notes that it collects."""

    text: str
    choose: Choose
    force: bool
    now: datetime
    edits: list[ManifestEdit] = field(default_factory=list)
    selections: list[tuple[str, Selection]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def select(self, label: str, request: SelectionRequest) -> Selection:
        try:
            selection = self.choose(label, request)
        except SelectionError as error:
            raise CommandError(f"{label}: selection failed: {error}") from None
        self.selections.append((label, selection))
        return selection

    def write(self, holder: MappingNode, values: Mapping[str, str], label: str) -> None:
        self.edits += annotate(self.text, holder, values, SELECT_POLICY_ANNOTATION, label)


def resolve(source: ManifestSource, choose: Choose, force: bool, now: datetime) -> Resolved:
    """Choose for each object in ``source``; content without a request comes back as it is.

    ``force`` chooses anew for objects that are pinned already. Raise `CommandError`.
    """
    # Most manifests have no request. They needn't even be parsed.
    if not all(trigger.encode() in source.content for trigger in _TRIGGERS):
        return Resolved(source.content)
    try:
        text = source.content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CommandError(f"{source.name}: isn't UTF-8 text ({error.reason}); save it as UTF-8") from None
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    done = [mark]
    selections: list[tuple[str, Selection]] = []
    notes: list[str] = []
    line = 1
    for document in split_documents(text.removeprefix(mark)):
        state = _Pass(document, choose, force, now)
        requests = all(trigger in document for trigger in _TRIGGERS)
        done.append(_resolve_document(state, source.name, line) if requests else document)
        selections += state.selections
        notes += state.notes
        line += document.count("\n")
    return Resolved("".join(done).encode(), tuple(selections), tuple(notes))


def _resolve_document(state: _Pass, name: str, line: int) -> str:
    for root in read_documents(state.text, name, line):
        for node in objects(root):
            _resolve_object(state, workload(node))
    text = edited(state.text, state.edits)
    _check(text, name, state)
    return text


def _resolve_object(state: _Pass, found: Workload) -> None:
    places = (found.node, *found.templates)
    with_policy = [one for one in places if annotations_of(one).get(SELECT_POLICY_ANNOTATION, "").strip()]
    if not with_policy:
        for one in places:
            state.notes += [f"{found.label}: {note}" for note in unknown_annotations(annotations_of(one))]
        return
    if not found.ours:
        state.notes.append(
            f"{found.label} has a select-policy and isn't for schedulerName {SCHEDULER_NAME}; left as it is"
        )
        return
    own = annotations_of(found.node)
    if found.node in with_policy:
        others = [one for one in found.templates if one not in with_policy]
        _resolve_policy(state, found.label, found.node, others, own, found.variables())
    inherited = {key: value for key, value in own.items() if key.startswith(SELECT_PREFIX)}
    for number, template in enumerate(found.templates, start=1):
        if template in with_policy:
            label = f"{found.label} template" + (f" {number}" if len(found.templates) > 1 else "")
            annotations = {**inherited, **annotations_of(template)}
            _resolve_policy(state, label, template, (), annotations, found.variables(template))


def _resolve_policy(
    state: _Pass,
    label: str,
    holder: MappingNode,
    templates: Sequence[MappingNode],
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
    state.write(holder, {**pin, SELECT_RESULT_ANNOTATION: select_result(selection, state.now)}, label)
    # Several templates may be one by an alias. It is written once.
    done = {id(child(holder, "metadata", "annotations"))}
    for template in templates:
        shared = child(template, "metadata", "annotations")
        if shared is None or id(shared) not in done:
            state.write(template, pin, label)
            done.add(id(shared))


def _check(text: str, name: str, state: _Pass) -> None:
    """Read the result back and raise `CommandError` unless it has every choice, so that nothing wrong is submitted."""
    wanted = {selection.chosen for _, selection in state.selections}
    try:
        found = set(_chosen(text, name))
    except CommandError:
        found = set()
    if not found.issuperset(wanted):
        labels = ", ".join(label for label, _ in state.selections)
        raise CommandError(
            f"{name}: the annotations of {labels} can't be written; put them in plain block style"
        )


def _chosen(text: str, name: str) -> Iterator[str]:
    for root in read_documents(text, name):
        for node in objects(root):
            found = workload(node)
            for one in (found.node, *found.templates):
                annotations = annotations_of(one)
                if SELECT_RESULT_ANNOTATION in annotations:
                    yield annotations.get(REQUIRE_BACKEND_ANNOTATION, "")
