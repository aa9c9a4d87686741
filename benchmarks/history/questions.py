"""What is asked, and by whom."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.history.year import NAMESPACES
from fluence_extender.model.access import Caller, pods_in, question
from tests.unit.http.callers import KnownCallers

GOAL = 200
"""The milliseconds that an answer may take."""

ADMIN, LEAD, USER = "admin", "lead", "user-7"


@dataclass(frozen=True, slots=True)
class Question:
    """A path of the state API, and who asks."""

    path: str
    caller: str = ADMIN


YEAR, MONTH = "since=2026-01-01", "since=2026-12-01"
GROUPINGS = ("queue", "user", "namespace", "account", "day")

QUESTIONS = (
    *(Question(f"/v1/usage?by={by}&{YEAR}") for by in GROUPINGS),
    *(Question(f"/v1/usage?by={by}&{MONTH}") for by in GROUPINGS),
    Question(f"/v1/usage?by=user&{YEAR}&namespace=team-7"),
    Question(f"/v1/usage?by=user&{YEAR}", LEAD),
    Question(f"/v1/usage?by=queue&{YEAR}", USER),
    Question("/v1/history"),
    Question("/v1/history?limit=1000"),
    Question("/v1/history?since=2026-12-31"),
    Question("/v1/history?namespace=team-7"),
    Question("/v1/history?queue=queue-7"),
    Question("/v1/history?user=user-7"),
    Question("/v1/history?account=grant-7"),
    Question("/v1/history?name=train-500000"),
    Question("/v1/history?workload=job/train-500000"),
    Question("/v1/history?namespace=team-7&workload=job/train-500000"),
    Question("/v1/history?namespace=team-7&queue=queue-8"),
    Question("/v1/history?queue=queue-8&account=grant-7"),
    Question("/v1/history?user=user-7&queue=queue-8"),
    Question("/v1/history", LEAD),
    Question("/v1/history?queue=queue-99", LEAD),
    Question("/v1/history", USER),
)
"""Those of two columns that nothing fits let the database look at all that fits one of them."""


def callers() -> KnownCallers:
    """Return who asks: an administrator, the lead of half of the namespaces, and a user of one."""
    ask = {question("GET", "/v1/usage"), question("GET", "/v1/history")}
    half = {pods_in(f"team-{number}") for number in range(0, NAMESPACES, 2)}
    return KnownCallers(
        tokens={name: Caller(name) for name in (ADMIN, LEAD, USER)},
        rights={ADMIN: {pods_in(""), *ask}, LEAD: half | ask, USER: {pods_in("team-7"), *ask}},
    )
