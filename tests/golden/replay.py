"""Replaying a recorded session of libreapi_cli on a matcher, step by step.

A session is a graph, options, and a list of calls with what libreapi_cli answered. A ``replay`` step is a call on a
fresh matcher over the same graph: allocate an R, then match.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fluence_extender.matcher.errors import MatcherError
from fluence_extender.matcher.port import Jgf, Matcher, MatcherOptions

Create = Callable[[Jgf, MatcherOptions], Matcher]

SESSIONS = sorted(Path(__file__).parent.glob("*.json.gz"))


def load(path: Path) -> dict[str, Any]:
    """Read a recorded session."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        session: dict[str, Any] = json.load(file)
    return session


def options_of(session: dict[str, Any]) -> MatcherOptions:
    """The session's options as the port names them."""
    options = session["options"]
    return MatcherOptions(options["matcher_policy"], options["prune_filters"], options["match_format"])


def differences(session: dict[str, Any], create: Create) -> list[str]:
    """Run the session; return a line for every step whose answer isn't the recorded one."""
    matcher = create(session["graph"], options_of(session))
    lines: list[str] = []
    for number, step in enumerate(session["steps"]):
        if step["call"] == "replay":
            fresh = create(session["graph"], options_of(session))
            lines += _compare(number, step["expect"], _answer(fresh, step))
            then = step["then"]
            lines += _compare(
                number, then["expect"], _answer(fresh, {"call": "match", "op": "allocate"} | then)
            )
            fresh.close()
        else:
            lines += _compare(number, step["expect"], _answer(matcher, step))
    matcher.close()
    return lines


def _compare(number: int, expected: dict[str, Any], answer: dict[str, Any]) -> list[str]:
    found = {key: answer.get(key) for key in expected}
    wrong = {key: found[key] for key in expected if found[key] != expected[key]}
    return [f"step {number}: {wrong}, recorded {expected}"] if wrong else []


def _answer(matcher: Matcher, step: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"ok": True} | _call(matcher, step)
    except MatcherError as error:
        return {"ok": False, "errno": error.errno}


def _call(matcher: Matcher, step: dict[str, Any]) -> dict[str, Any]:
    match step["call"]:
        case "match":
            found = matcher.match(step["op"], step["jobspec"])
            return {
                "jobid": found.jobid,
                "reserved": found.reserved,
                "at": found.at,
                "placement": {path: dict(amounts) for path, amounts in found.placement.items()},
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
            raise ValueError(f"a recorded session has an unknown call {call!r}")
    return {}
