"""Recorded sessions of libreapi_cli, and their replay on a matcher, step by step.

A session is a graph, options, and a list of calls with what libreapi_cli answered. A ``replay`` step is a call on a
fresh matcher over the same graph: allocate an R, then match.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.oracle.engines import Create
from tests.oracle.errors import MatcherError
from tests.oracle.port import Matcher, MatcherOptions

Session = dict[str, Any]

SESSIONS = sorted((Path(__file__).parent / "golden").glob("*.json.gz"))
"""The sessions of this folder."""

_GZIP = b"\x1f\x8b"


class NotASession(Exception):
    """A file isn't a recorded session, or it has a call that no matcher has."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A step whose answer isn't the recorded one."""

    step: int
    answer: dict[str, Any]
    recorded: dict[str, Any]

    def __str__(self) -> str:
        return f"step {self.step}: {self.answer}, recorded {self.recorded}"


def load(path: Path) -> Session:
    """Read a recorded session, which is JSON or gzipped JSON. Raises `NotASession`."""
    try:
        data = path.read_bytes()
        session = json.loads(gzip.decompress(data) if data.startswith(_GZIP) else data)
    except (OSError, EOFError, ValueError) as error:
        raise NotASession(str(error)) from error
    if not isinstance(session, dict) or not {"graph", "options", "steps"} <= session.keys():
        raise NotASession("it has no graph, options and steps")
    return session


def options_of(session: Session) -> MatcherOptions:
    """Return the session's options as the port names them."""
    options = session["options"]
    return MatcherOptions(options["matcher_policy"], options["prune_filters"], options["match_format"])


def types_of(session: Session) -> frozenset[str]:
    """Return the resource types of the session's graph."""
    return frozenset(node["metadata"]["type"] for node in session["graph"]["graph"]["nodes"])


def differences(session: Session, create: Create) -> list[Difference]:
    """Run the session; return what differs from the record. Raises `NotASession`."""
    matcher = create(session["graph"], options_of(session))
    try:
        return [
            difference
            for number, step in enumerate(session["steps"])
            for difference in _step_differences(session, create, matcher, number, step)
        ]
    finally:
        matcher.close()


def _step_differences(
    session: Session, create: Create, matcher: Matcher, number: int, step: dict[str, Any]
) -> list[Difference]:
    if step["call"] != "replay":
        return _compare(number, step, _answer(matcher, step))
    fresh = create(session["graph"], options_of(session))
    try:
        then = {"call": "match", "op": "allocate"} | step["then"]
        return [
            *_compare(number, step, _answer(fresh, step)),
            *_compare(number, then, _answer(fresh, then)),
        ]
    finally:
        fresh.close()


def _compare(number: int, step: dict[str, Any], answer: dict[str, Any]) -> list[Difference]:
    recorded = step["expect"]
    wrong = {key: answer.get(key) for key in recorded if answer.get(key) != recorded[key]}
    return [Difference(number, wrong, recorded)] if wrong else []


def _answer(matcher: Matcher, step: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"ok": True} | _call(matcher, step)
    except MatcherError as error:
        return {"ok": False, "errno": error.errno}


def _call(matcher: Matcher, step: dict[str, Any]) -> dict[str, Any]:
    match step["call"]:
        case "match":
            match = matcher.match(step["op"], step["jobspec"])
            return {
                "jobid": match.jobid,
                "reserved": match.reserved,
                "at": match.at,
                "placement": {path: dict(amounts) for path, amounts in match.placement.items()},
            }
        case "info":
            info = matcher.info(step["jobid"])
            return {"mode": info.mode, "reserved": info.reserved, "at": info.at}
        case "cancel":
            matcher.cancel(step["jobid"])
        case "set_status":
            matcher.set_status(step["path"], step["up"])
        case "add_subgraph":
            matcher.add_subgraph(step["graph"])
        case "remove_subgraph":
            matcher.remove_subgraph(step["path"])
        case "replay":
            matcher.update_allocate(step["jobid"], step["R"])
        case call:
            raise NotASession(f"it has an unknown call {call!r}")
    return {}
