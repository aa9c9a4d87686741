"""Giving each object of a manifest that asks for one its backend.

A policy on an object counts for all its pods; one on a pod template for that template's. The pin is written where the
policy is and on each template it counts for, because pods carry their template's annotations and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from yaml.nodes import MappingNode

from fluence_extender.apps.kubectl.edits import Edit, annotate, edited
from fluence_extender.apps.kubectl.errors import CommandError
from fluence_extender.apps.kubectl.manifests import child, objects, read_documents, split_documents
from fluence_extender.apps.kubectl.sources import Source
from fluence_extender.apps.kubectl.workloads import Workload, annotations_of, workload
from fluence_extender.model.names import (
    REQUIRE_BACKEND_ANNOTATION,
    SCHEDULER_NAME,
    SELECT_POLICY_ANNOTATION,
    SELECT_PREFIX,
    SELECT_RESULT_ANNOTATION,
)
from fluence_extender.selection.audit import select_result
from fluence_extender.selection.errors import SelectionError
from fluence_extender.selection.pipeline import Selection
from fluence_extender.selection.request import Request, read_request, unknown_annotations

Choose = Callable[[str, Request], Selection]
"""Label of an object and what it asks -> the choice. Raises `SelectionError` or `CommandError`."""

_TRIGGERS = tuple(SELECT_PREFIX.split("/"))
"""What a document that asks for a backend contains; JSON may write the slash between them in its own way."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A manifest with its pins; ``selections`` by the object's label, ``notes`` for people."""

    content: bytes
    selections: tuple[tuple[str, Selection], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Pass:
    """What comes together in one pass over one document."""

    text: str
    choose: Choose
    force: bool
    now: datetime
    edits: list[Edit] = field(default_factory=list)
    selections: list[tuple[str, Selection]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def select(self, label: str, request: Request) -> Selection:
        try:
            selection = self.choose(label, request)
        except SelectionError as error:
            raise CommandError(f"{label}: selection failed: {error}") from None
        self.selections.append((label, selection))
        return selection

    def write(self, holder: MappingNode, values: Mapping[str, str], label: str) -> None:
        self.edits += annotate(self.text, holder, values, SELECT_POLICY_ANNOTATION, label)


def resolve(source: Source, choose: Choose, force: bool, now: datetime) -> Resolved:
    """Choose for each object in ``source``; content that asks for nothing comes back as it is.

    Raises `CommandError`.
    """
    # Most manifests ask for nothing; they needn't even be parsed.
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
        going = _Pass(document, choose, force, now)
        asks = all(trigger in document for trigger in _TRIGGERS)
        done.append(_resolve_document(going, source.name, line) if asks else document)
        selections += going.selections
        notes += going.notes
        line += document.count("\n")
    return Resolved("".join(done).encode(), tuple(selections), tuple(notes))


def _resolve_document(going: _Pass, name: str, line: int) -> str:
    for root in read_documents(going.text, name, line):
        for node in objects(root):
            _resolve_object(going, workload(node))
    text = edited(going.text, going.edits)
    _check(text, name, going)
    return text


def _resolve_object(going: _Pass, found: Workload) -> None:
    places = (found.node, *found.templates)
    if not any(annotations_of(one).get(SELECT_POLICY_ANNOTATION, "").strip() for one in places):
        for one in places:
            going.notes += [f"{found.label}: {note}" for note in unknown_annotations(annotations_of(one))]
        return
    if not found.ours:
        going.notes.append(
            f"{found.label} has a select-policy and isn't for schedulerName {SCHEDULER_NAME}; left as it is"
        )
        return
    with_policy = [
        one for one in found.templates if annotations_of(one).get(SELECT_POLICY_ANNOTATION, "").strip()
    ]
    if annotations_of(found.node).get(SELECT_POLICY_ANNOTATION, "").strip():
        others = [one for one in found.templates if one not in with_policy]
        _resolve_policy(going, found.label, found.node, others, annotations_of(found.node), found.variables())
    inherited = {
        key: value for key, value in annotations_of(found.node).items() if key.startswith(SELECT_PREFIX)
    }
    for number, template in enumerate(found.templates, start=1):
        if template in with_policy:
            label = f"{found.label} template" + (f" {number}" if len(found.templates) > 1 else "")
            asked = {**inherited, **annotations_of(template)}
            _resolve_policy(going, label, template, (), asked, found.variables(template))


def _resolve_policy(
    going: _Pass,
    label: str,
    holder: MappingNode,
    templates: list[MappingNode] | tuple[()],
    asked: Mapping[str, str],
    variables: list[str],
) -> None:
    """Choose by the policy on ``holder``, and pin it and the templates that the policy counts for."""
    pins = [annotations_of(one).get(REQUIRE_BACKEND_ANNOTATION, "") for one in (holder, *templates)]
    pinned = next((pin for pin in pins if pin), "")
    if pinned and not going.force:
        told = f'{label} already pinned to "{pinned}"; skipping selection (use --force-select to override)'
        if not all(pins):
            told += "; not all of its pods carry the pin"
        going.notes.append(told)
        return
    selection = going.select(label, read_request(asked, variables))
    pin = {REQUIRE_BACKEND_ANNOTATION: selection.chosen}
    going.write(holder, {**pin, SELECT_RESULT_ANNOTATION: select_result(selection, going.now)}, label)
    # Templates that are one and the same by an alias are written once.
    done = {id(child(holder, "metadata", "annotations"))}
    for template in templates:
        shared = child(template, "metadata", "annotations")
        if shared is None or id(shared) not in done:
            going.write(template, pin, label)
            done.add(id(shared))


def _check(text: str, name: str, going: _Pass) -> None:
    """Read the result back: what is written must say what was chosen, or nothing is submitted."""
    wanted = {selection.chosen for _, selection in going.selections}
    try:
        found = set(_chosen(text, name))
    except CommandError:
        found = set()
    if not found.issuperset(wanted):
        labels = ", ".join(label for label, _ in going.selections)
        raise CommandError(
            f"{name}: the annotations of {labels} can't be written; put them in plain block style"
        )


def _chosen(text: str, name: str) -> Iterator[str]:
    for root in read_documents(text, name):
        for node in objects(root):
            found = workload(node)
            for one in (found.node, *found.templates):
                notes = annotations_of(one)
                if SELECT_RESULT_ANNOTATION in notes:
                    yield notes.get(REQUIRE_BACKEND_ANNOTATION, "")
