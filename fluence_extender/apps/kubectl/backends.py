"""``kubectl fluence backends``: the virtual devices, what of them is free, and who holds the rest."""

from __future__ import annotations

from collections.abc import Sequence

from fluence_extender.apps.kubectl.errors import CommandError
from fluence_extender.apps.kubectl.question import read_question
from fluence_extender.apps.kubectl.service import Item, Service
from fluence_extender.apps.kubectl.tables import Column, answer


def backends(words: Sequence[str]) -> int:
    """``kubectl fluence backends [NAME]``."""
    question = read_question("backends", words, most=1)
    if question is None:
        return 0
    name = question.words[0] if question.words else ""
    service = Service(question)
    found = service.items("/v1/backends", backend=name)
    if name and not found:
        raise CommandError(f"no backend {name}; {_nearest(service, name)}")
    if question.output == "name":
        for backend in dict.fromkeys(device["backend"] for device in found):
            print(f"backend/{backend}")
        return 0
    none = "no backends are configured (ConfigMap fluence-resources)"
    rows = found if question.output else together(found)
    answer(question, "backend", rows, COLUMNS, none)
    return 0


def _nearest(service: Service, name: str) -> str:
    """Advice for the name of a backend that isn't there."""
    from difflib import get_close_matches

    close = get_close_matches(name, {device["backend"] for device in service.items("/v1/backends")}, n=1)
    return f'did you mean "{close[0]}"?' if close else "kubectl fluence backends lists all"


def together(devices: Sequence[Item]) -> list[Item]:
    """The devices of one type of one backend as one row."""
    rows: dict[tuple[str, str], Item] = {}
    for device in devices:
        row = rows.get((device["backend"], device["type"]))
        if row is None:
            rows[device["backend"], device["type"]] = {**device, "holders": [*device["holders"]]}
            continue
        for count in ("total", "held", "free"):
            row[count] += device[count]
        row["holders"] += device["holders"]
        row["problems"] = list(dict.fromkeys([*row["problems"], *device["problems"]]))
    return list(rows.values())


def _holders(device: Item) -> str:
    return ", ".join(dict.fromkeys(f"{one['namespace']}/{one['pod']}" for one in device["holders"]))


def _attributes(device: Item) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(device["attributes"].items()))


COLUMNS = (
    Column("BACKEND", lambda device: str(device["backend"])),
    Column("TYPE", lambda device: str(device["type"])),
    Column("TOTAL", lambda device: str(device["total"])),
    Column("HELD", lambda device: str(device["held"])),
    Column("FREE", lambda device: str(device["free"])),
    Column("NODE", lambda device: str(device["node"])),
    Column("PATH", lambda device: str(device["path"]), wide=True),
    Column("ATTRIBUTES", _attributes),
    Column("HELD BY", _holders),
    Column("PROBLEM", lambda device: "; ".join(device["problems"])),
)
