"""Read a frozen Struct from the JSON of an object, without those of its fields that can't be read.

A field of an object is in its ``spec``, and a field of a part is in that part, under its name in camel case. `At` says
so of a field that is elsewhere. A type that JSON doesn't have is read by a function (`Reads`, `ReadsEach`).

Invariants: a field that can't be read has its default, and a problem names its path. Its siblings count. Null is the
same as no field. A part that lacks a field without a default doesn't exist, and reading fails for an object that lacks
one, such as its name.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache, partial
from typing import Annotated, Any, ClassVar, TypeVar, Union, get_args, get_origin

import msgspec
import structlog
from msgspec import Meta, Raw, Struct

log = structlog.get_logger(__name__)

LONGEST_SHOWN = 40
"""The most characters of a name or of a value that a problem quotes."""

MOST_REPORTED = 1024
"""The most logged problems that are remembered, so that they aren't logged again."""

PROBLEMS = "problems"
"""The field of an object that says which of its fields can't be read. It isn't read itself."""

UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
"""The errors with which a value can't be read. `UnicodeDecodeError` is one of them."""

NULL = Raw(b"null")


class PartlyCompared(Struct, frozen=True, eq=False, rename="camel"):
    """A value of which some fields aren't compared."""

    UNCOMPARED: ClassVar[frozenset[str]] = frozenset()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            getattr(self, name) == getattr(other, name)
            for name in self.__struct_fields__
            if name not in self.UNCOMPARED
        )

    def __ne__(self, other: object) -> bool:
        # Struct has an operator of its own for this.
        return not self == other


class At:
    """Says where in the object or part a field is: ``metadata.name``."""

    def __init__(self, path: str) -> None:
        self.steps = tuple(path.split("."))


@dataclass(frozen=True, slots=True)
class Reads:
    """Says which function makes the field's value of a value of type ``of``. It raises `ValueError`."""

    read: Callable[[Any], object]
    of: Any = Any


@dataclass(frozen=True, slots=True)
class ReadsEach:
    """Says which function makes each entry of a map, from its key and its JSON. It raises `ValueError`."""

    read: Callable[[str, Any], object]


Value = TypeVar("Value", bound=Struct)
Note = Callable[[str, Raw, str], None]
"""Takes a problem: the path of the field, its JSON, and why it isn't in force."""

Leaf = Callable[[Raw, str, Note], object]
"""Reads one value at a path. It gives `UNSET` for a value that can't be read."""

_fields = msgspec.json.Decoder(dict[str, Raw]).decode


@dataclass(slots=True)
class _Place:
    """A place in the JSON: the fields that are read from it, and the places inside it."""

    fields: list[tuple[str, Leaf]] = field(default_factory=list)
    inside: dict[str, _Place] = field(default_factory=dict)

    def at(self, steps: tuple[str, ...]) -> _Place:
        """Return the place that these steps lead to."""
        return self.inside.setdefault(steps[0], _Place()).at(steps[1:]) if steps else self

    def values(self, raw: Raw, path: str, note: Note) -> Iterator[tuple[str, object]]:
        """Yield the fields that can be read."""
        for name, leaf in self.fields:
            yield name, leaf(raw, path, note)
        if not self.inside:
            return
        try:
            parts = _fields(raw)
        except UNREADABLE as error:
            note(path, raw, _without_path(error))
            return
        for step, place in self.inside.items():
            part = parts.get(step)
            if part is not None and part != NULL:
                yield from place.values(part, f"{path}.{step}" if path else step, note)


def reader(kind: type[Value]) -> Callable[[bytes], Value]:
    """Return the function that reads objects of a kind.

    If the kind has a field ``problems``, it gets them. The log has the first problem of an object once. The function
    raises `msgspec.MsgspecError` if the object lacks a field without a default, or is none.
    """
    root, required = _plan(kind, ("spec",)), _required(kind)
    keeps_problems = PROBLEMS in kind.__struct_fields__

    def read(raw: bytes) -> Value:
        problems: dict[str, None] = {}

        def note(path: str, value: Raw, why: str) -> None:
            problems[f"{path} is {_shown(value)!r}, which isn't in force: {why}"] = None

        values = _set(root.values(Raw(raw), "", note))
        missing = required - values.keys()
        if missing:
            raise msgspec.ValidationError(
                f"the object has no {' and no '.join(sorted(missing))} that can be read"
            )
        if problems:
            name = f"{values.get('namespace', '')}/{values.get('name', '')}".removeprefix("/")
            report(kind.__name__, name, next(iter(problems)))
        if keeps_problems:
            values[PROBLEMS] = tuple(problems)
        return kind(**values)

    return read


def _set(values: Iterator[tuple[str, object]]) -> dict[str, Any]:
    return {name: value for name, value in values if value is not msgspec.UNSET}


def _plan(kind: type[Struct], prefix: tuple[str, ...] = ()) -> _Place:
    """Return the places from which the fields of a kind are read."""
    root = _Place()
    for one in msgspec.structs.fields(kind):
        if one.name == PROBLEMS:
            continue
        notes = one.type.__metadata__ if get_origin(one.type) is Annotated else ()
        named = next((note.steps for note in notes if isinstance(note, At)), (*prefix, one.encode_name))
        root.at(named).fields.append((one.name, _leaf(one.type)))
    return root


@lru_cache(maxsize=256)
def _part(kind: type[Struct]) -> tuple[_Place, frozenset[str]]:
    """Return the plan of a part, and the fields without which it doesn't exist."""
    return _plan(kind), _required(kind)


def _required(kind: type[Struct]) -> frozenset[str]:
    return frozenset(one.name for one in msgspec.structs.fields(kind) if one.required)


def _leaf(hint: Any) -> Leaf:
    """Return what reads the values of a type."""
    hint, notes = _bare(hint)
    for one in notes:
        if isinstance(one, Reads):
            return partial(_read_by, one.read, msgspec.json.Decoder(one.of).decode)
        if isinstance(one, ReadsEach):
            return partial(_read_each, one.read)
    if isinstance(hint, type) and issubclass(hint, Struct):
        return partial(_read_part, hint)
    metas = [one for one in notes if isinstance(one, Meta)]
    for meta in metas:
        hint = Annotated[hint, meta]
    return partial(_read_by, lambda value: value, msgspec.json.Decoder(hint).decode, rule=_rule(hint, metas))


def _bare(hint: Any) -> tuple[Any, list[Any]]:
    """Return a type without its annotations and without None, and the annotations."""
    if get_origin(hint) is Annotated:
        inner, *own = get_args(hint)
        bare, notes = _bare(inner)
        return bare, own + notes
    others = [one for one in get_args(hint) if one is not types.NoneType]
    if get_origin(hint) in (Union, types.UnionType) and len(others) == 1:
        return _bare(others[0])
    return hint, []


def _rule(hint: Any, metas: list[Meta]) -> str:
    """Return what a value of the type must be, "" if the message of the decoder says it well."""
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return f"it must be one of {', '.join(hint)}"
    return next((f"it must be {one.description}" for one in metas if one.description), "")


def _read_by(
    read: Callable[[Any], object],
    decode: Callable[[Any], Any],
    raw: Raw,
    path: str,
    note: Note,
    rule: str = "",
) -> object:
    try:
        return read(decode(raw))
    except UNREADABLE as error:
        note(path, raw, rule or _without_path(error))
        return msgspec.UNSET


def _read_each(
    read: Callable[[str, Any], object], raw: Raw, path: str, note: Note
) -> Mapping[str, object] | object:
    try:
        entries = _fields(raw)
    except UNREADABLE as error:
        note(path, raw, _without_path(error))
        return msgspec.UNSET
    kept = {}
    for name, entry in sorted(entries.items()):
        if entry == NULL:
            continue
        value = _read_by(
            partial(read, name), msgspec.json.decode, entry, f"{path}.{name[:LONGEST_SHOWN]}", note
        )
        if value is not msgspec.UNSET:
            kept[name] = value
    return kept


def _read_part(kind: type[Struct], raw: Raw, path: str, note: Note) -> object:
    place, required = _part(kind)
    values = _set(place.values(raw, path, note))
    return msgspec.UNSET if required - values.keys() else kind(**values)


def _without_path(error: Exception) -> str:
    """Return the message of a decoder without the path inside the value, because the problem has the whole path."""
    return str(error).partition(" - at `")[0]


def _shown(raw: Raw) -> str:
    """Return the begin of a value: of its text, or of its JSON."""
    text = bytes(raw)
    with suppress(*UNREADABLE):
        if text.startswith(b'"'):
            return str(msgspec.json.decode(text))[:LONGEST_SHOWN]
    return text[:LONGEST_SHOWN].decode(errors="replace")


@lru_cache(maxsize=MOST_REPORTED)
def report(kind: str, name: str, problem: str) -> None:
    """Log why an object can't be read, once for each such problem."""
    log.warning("an object can't be read in full", kind=kind, object=name, problem=problem)
