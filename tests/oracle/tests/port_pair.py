"""Two matchers that get the same calls and must give the same answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.oracle.engines import Create
from tests.oracle.errors import MatcherError
from tests.oracle.port import JobInfo, Match, Matcher, MatcherOptions
from tests.oracle.tests.port_scenarios import (
    FILTERS,
    OPERATIONS,
    POLICIES,
    Grown,
    random_jobspec,
)


@dataclass(frozen=True)
class Refused:
    """A refusal; its wording may differ between engines."""

    kind: str
    errno: int
    message: str = field(compare=False)


class Pair:
    """``one`` and ``other`` over the same random graph."""

    def __init__(self, seed: int, one: Create, other: Create) -> None:
        self.random = random = Random(seed)
        self.grown = Grown(random, ranked=random.random() < 0.95)
        self.options = MatcherOptions(random.choice(POLICIES), random.choice(FILTERS))
        self.matchers = [create(self.grown.document, self.options) for create in (one, other)]
        self.live: dict[int, Any] = {}
        self.past: list[tuple[Any, int, int]] = []
        self.next = 1

    def close(self) -> None:
        for matcher in self.matchers:
            matcher.close()

    def run(self, steps: int) -> None:
        calls = [
            *[self.match] * 6,
            *[self.cancel] * 2,
            *[self.update_allocate] * 2,
            self.set_status,
        ]
        for _ in range(steps):
            self.random.choice(calls)()
            self.info()

    def ask(self, call: Callable[[Matcher], Any]) -> Any:
        """Return the answer, which must be the same from both."""
        answers = [_answer(call, matcher) for matcher in self.matchers]
        assert answers[0] == answers[1], (self.options, _arguments(call))
        return answers[0]

    def match(self) -> None:
        op, spec, jobid = self.random.choice(OPERATIONS), random_jobspec(self.random), self.next
        answer = self.ask(lambda matcher: matcher.match(op, spec, jobid))
        self.next += 1
        if isinstance(answer, dict) and answer["R"] is not None:
            duration = spec["attributes"]["system"]["duration"] or 3_153_600_000
            self.past.append((answer["R"], answer["at"], answer["at"] + duration))
            if answer["jobid"] == jobid:
                self.live[jobid] = answer["R"]

    def cancel(self) -> None:
        jobid = self.random.choice([*self.live, 999])
        self.ask(lambda matcher: matcher.cancel(jobid))
        self.live.pop(jobid, None)

    def update_allocate(self) -> None:
        if not self.past:
            return
        granted, start, end = self.random.choice(self.past)
        execution = {
            "R_lite": [{"rank": "0", "children": {"core": "0"}}],
            "nodelist": ["node0"],
            "starttime": start,
            "expiration": end,
        }
        timed = {"version": 1, "execution": execution, "scheduling": granted}
        written = self.random.choice([granted, timed])
        jobid = self.next
        self.next += 1
        answer = self.ask(lambda matcher: matcher.update_allocate(jobid, written))
        if isinstance(answer, dict):
            self.live[jobid] = answer["R"]

    def set_status(self) -> None:
        path, up = self.random.choice(self.grown.paths), self.random.random() < 0.6
        self.ask(lambda matcher: matcher.set_status(path, up))

    def info(self) -> None:
        if self.live:
            jobid = self.random.choice([*self.live])
            self.ask(lambda matcher: matcher.info(jobid))


def _arguments(call: Callable[[Matcher], Any]) -> dict[str, Any]:
    """Return the arguments of a call."""
    values = (cell.cell_contents for cell in call.__closure__ or ())
    return dict(zip(call.__code__.co_freevars, values, strict=True))


def _answer(call: Callable[[Matcher], Any], matcher: Matcher) -> Any:
    try:
        answer = call(matcher)
    except MatcherError as error:
        return Refused(type(error).__name__, error.errno, str(error))
    if isinstance(answer, Match):
        names = ("jobid", "reserved", "at", "placement", "R")
        return {name: getattr(answer, name) for name in names}
    return (answer.mode, answer.reserved, answer.at) if isinstance(answer, JobInfo) else answer
