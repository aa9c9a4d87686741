"""``kubectl fluence simulate``: whether manifests fit now, and where; if not why, from when on, and what would fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import click

from fluence_extender.apps.kubectl.errors import UsageError
from fluence_extender.apps.kubectl.options import StateApiCommand, namespace_option, output_option
from fluence_extender.apps.kubectl.sources import file_options, manifests_as_json, read_sources
from fluence_extender.apps.kubectl.state_api import StateApiClient
from fluence_extender.apps.kubectl.tables import print_document
from fluence_extender.model.notation import first_few

DOES_NOT_FIT = 3
"""Exit code: the simulation worked, and its result is no."""

NODES_SHOWN = 8
FOLDED = 5
"""A run of at least this many gangs with the same result is printed as one."""


@click.command(cls=StateApiCommand, params=file_options())
@output_option("json", "yaml")
@namespace_option
@click.pass_obj
def simulate(
    client: StateApiClient,
    filename: tuple[str, ...],
    kustomize: str,
    recursive: bool,
    output: str | None,
    namespace: str,
) -> int:
    """Tell whether the pods of manifests would fit now, and where.

    If they don't fit: why, when they would at the earliest, and how much less would fit. Ends with 3 if something
    doesn't fit. Changes nothing.
    """
    if not filename and not kustomize:
        raise UsageError("simulate needs manifests: -f FILE, a directory, a URL, or - for standard input")
    body = manifests_as_json(read_sources(filename, kustomize, recursive))
    document = client.document("/v1/simulate", body, namespace=client.namespace(namespace) or "default")
    print_answer(document, output)
    return 0 if document["fits"] else DOES_NOT_FIT


def print_answer(document: Mapping[str, Any], output: str | None) -> None:
    """Print an answer of ``/v1/simulate`` as JSON, as YAML, or as text for people."""
    if output in ("json", "yaml"):
        print_document(document, output)
        return
    for line in answer_lines(document):
        print(line)


def answer_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of an answer for people."""
    for _, run in groupby(document["gangs"], _result):
        alike = list(run)
        if len(alike) < FOLDED:
            for gang in alike:
                yield from _gang_lines(gang, f"{gang['gang']} ({_pods(gang)})", gang["placement"])
            continue
        names = f"{alike[0]['gang']} to {alike[-1]['gang']} ({len(alike):,} times {_pods(alike[0])})"
        placement = [one for gang in alike for one in gang["placement"]]
        yield from _gang_lines(alike[0], names, placement)
    for ignored in document["ignored"]:
        yield f"note: {ignored} was left out: nothing is known of pods that it makes"
    for note in document["notes"]:
        yield f"note: {note}"


def _result(gang: Mapping[str, Any]) -> tuple[object, ...]:
    """Return what is printed of a gang, apart from its name and its nodes."""
    preemption = gang.get("preemption") or {}
    # Gangs with victims differ, because their victims do.
    named = gang["gang"] if preemption.get("victims") else ""
    reductions = [one["text"] for one in gang["reductions"]]
    return (
        *(gang.get(key) for key in ("members", "fits", "reason", "earliestStart")),
        preemption.get("text"),
        named,
        reductions,
    )


def _pods(gang: Mapping[str, Any]) -> str:
    return f"{gang['members']:,} pod" + ("" if gang["members"] == 1 else "s")


def _gang_lines(gang: Mapping[str, Any], name: str, placement: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if gang["fits"]:
        yield f"{name}: fits now"
        yield from _places(placement)
        return
    yield f"{name}: doesn't fit now"
    yield f"  {gang['reason']}"
    if gang["earliestStart"]:
        yield f"  at the earliest in {gang['earliestIn']} ({gang['earliestStart']}), by what running pods say"
    if gang.get("preemption"):
        yield f"  {gang['preemption']['text']}"
        yield from _places(gang["preemption"]["placement"], "then ")
    for reduction in gang["reductions"]:
        yield f"  would fit now: {reduction['text']}"


def _places(placement: Sequence[Mapping[str, Any]], when: str = "") -> Iterator[str]:
    if not placement:
        return
    nodes = Counter(one["node"] for one in placement)
    counted = [f"{node} ({count})" if count > 1 else node for node, count in nodes.items()]
    yield f"  {when}on {first_few(counted, NODES_SHOWN)}"
    backends = sorted({one["backend"] for one in placement if one["backend"]})
    if backends:
        yield f"  backends: {', '.join(backends)}"
