"""/v1/usage and /v1/history: what was used and what ran, for those who may see it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime

import httpx
import pytest

from fluence_extender.api.past import HeldDevice, StartMove, WorkRecord
from fluence_extender.http.listeners.gate import ReviewingGate
from fluence_extender.http.metrics import Metrics
from fluence_extender.http.state.app import api_app
from fluence_extender.http.state.history import BadSince, since_time
from fluence_extender.model.access import ALL_PAST_WORK, Caller, pods_in, question
from fluence_extender.model.accounting import (
    AccountUnavailable,
    Grouping,
    Reader,
    RunQuestion,
    UsedAmount,
)
from tests.unit.http.callers import KnownCallers
from tests.unit.http.held_placements import HeldPlacements
from tests.unit.http.openapi_check import problems


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def run(number: int) -> WorkRecord:
    return WorkRecord(
        run=f"r{number}",
        namespace="team",
        name="train",
        convention="job",
        workload="job/train",
        queue="physics",
        user="ada",
        account="grant",
        created=at(1000),
        started=at(2000 + number),
        ended=at(3000),
        waited=1000 + number,
        outcome="Succeeded",
        promised=at(1500),
        moves=(StartMove(at(1400), at(1500), None),),
        pods=2,
        nodes=("n1",),
        requests={"cpu": 1.5, "memory": 2**30},
        devices=(HeldDevice("qpu", "ibm-a", 1),),
    )


class HeldAccount:
    """An account that records what is asked, and answers from ``all_runs``."""

    def __init__(self) -> None:
        self.readers: list[Reader] = []
        self.questions: list[RunQuestion] = []
        self.usage_asked: list[tuple[Grouping, int, str]] = []
        self.failure: AccountUnavailable | None = None
        self.all_runs = [run(number) for number in (3, 2, 1)]

    async def namespaces(self) -> frozenset[str]:
        return frozenset({"team", "web"})

    async def usage(self, by: Grouping, since: int, namespace: str, reader: Reader) -> Sequence[UsedAmount]:
        self._note(reader)
        self.usage_asked.append((by, since, namespace))
        return [
            UsedAmount("ada", "cpu", "", 7_200_000),
            UsedAmount("ada", "memory", "", 3600),
            UsedAmount("ada", "nvidia.com/gpu", "", 60),
            UsedAmount("ada", "qpu", "ibm-a", 90),
        ]

    async def runs(self, asked: RunQuestion, reader: Reader) -> Sequence[WorkRecord]:
        self._note(reader)
        self.questions.append(asked)
        return self.all_runs[: asked.limit]

    def _note(self, reader: Reader) -> None:
        if self.failure is not None:
            raise self.failure
        self.readers.append(reader)


@pytest.fixture
def account(placements: HeldPlacements) -> HeldAccount:
    placements.account = HeldAccount()
    return placements.account


@pytest.fixture
async def guarded(placements: HeldPlacements, metrics: Metrics) -> AsyncIterator[httpx.AsyncClient]:
    ask = {question("GET", "/v1/usage"), question("GET", "/v1/history")}
    callers = KnownCallers(
        tokens={
            "ada": Caller("ada"),
            "odd": Caller("namespace team"),
            "admin": Caller("admin"),
            "boss": Caller("boss"),
            "no": Caller("no"),
        },
        rights={
            "ada": {pods_in("team"), *ask},
            "namespace team": {*ask},
            "admin": {pods_in(""), *ask},
            "boss": {ALL_PAST_WORK, *ask},
            "no": set(),
        },
    )
    transport = httpx.ASGITransport(api_app(placements, metrics, gate=ReviewingGate(callers)))
    async with httpx.AsyncClient(transport=transport, base_url="https://extender") as client:
        yield client


async def test_use_is_shown_in_core_seconds_bytes_and_devices(
    api: httpx.AsyncClient, account: HeldAccount
) -> None:
    answer = await api.get("/v1/usage?by=user&since=2026-11-01&namespace=team")
    assert answer.json() == {
        "items": [
            {
                "name": "ada",
                "seconds": {"cpu": 7200.0, "memory": 3600 * 2**20, "nvidia.com/gpu": 60},
                "devices": [{"type": "qpu", "backend": "ibm-a", "seconds": 90}],
            }
        ],
        "metadata": {"leading": True},
    }
    begin = int(datetime(2026, 11, 1, tzinfo=UTC).timestamp())
    assert account.usage_asked == [(Grouping.USER, begin, "team")]


async def test_what_ran_is_shown(api: httpx.AsyncClient, account: HeldAccount) -> None:
    (first, *_) = (await api.get("/v1/history")).json()["items"]
    assert first["requests"] == {"cpu": 1.5, "memory": 2**30}
    assert first["devices"] == [{"type": "qpu", "backend": "ibm-a", "count": 1}]
    assert (first["waited"], first["started"], first["outcome"]) == (
        1003,
        "1970-01-01T00:33:23Z",
        "Succeeded",
    )
    assert first["moves"][0]["start"] is None


async def test_filters_reach_the_account(api: httpx.AsyncClient, account: HeldAccount) -> None:
    query = "namespace=a&queue=b&user=c&account=d&name=e&workload=job/f&since=1970-01-02&limit=7"
    assert (await api.get(f"/v1/history?{query}")).status_code == 200
    assert account.questions == [RunQuestion("a", "b", "c", "d", "e", "job/f", 86_400, 7)]


async def test_no_more_is_shown_than_is_asked_for(api: httpx.AsyncClient, account: HeldAccount) -> None:
    answer = (await api.get("/v1/history?limit=2")).json()
    assert [one["run"] for one in answer["items"]] == ["r3", "r2"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/history?continue=r2", 400),
        ("/v1/history?since=yesterday", 400),
        ("/v1/history?limit=0", 422),
        ("/v1/usage?by=planet", 422),
        ("/v1/usage?since=30x", 400),
        ("/v1/usage?user=ada", 400),
    ],
)
async def test_question_that_makes_no_sense_is_refused(
    api: httpx.AsyncClient, account: HeldAccount, path: str, status: int
) -> None:
    assert (await api.get(path)).status_code == status


@pytest.mark.parametrize("path", ["/v1/usage", "/v1/history"])
async def test_service_without_an_account_says_how_to_keep_one(api: httpx.AsyncClient, path: str) -> None:
    answer = await api.get(path)
    assert answer.status_code == 501
    assert "--history" in answer.json()["message"]


@pytest.mark.parametrize("path", ["/v1/usage", "/v1/history"])
async def test_database_that_is_away_takes_down_these_answers_alone(
    api: httpx.AsyncClient, account: HeldAccount, path: str
) -> None:
    account.failure = AccountUnavailable("the account of past work can't be read: gone")
    answer = await api.get(path)
    assert (answer.status_code, answer.json()["detail"]) == (503, str(account.failure))
    assert (await api.get("/v1/gangs")).status_code == 200


@pytest.mark.parametrize("path", ["/v1/usage", "/v1/history"])
async def test_answers_are_as_documented(api: httpx.AsyncClient, account: HeldAccount, path: str) -> None:
    document = (await api.get("/openapi.json")).json()
    assert problems(document, path, 200, (await api.get(path)).json()) == []
    account.failure = AccountUnavailable("gone")
    assert problems(document, path, 503, (await api.get(path)).json()) == []


@pytest.mark.parametrize(
    ("token", "query", "seen"),
    [
        ("ada", "", ({"team"}, "ada", True)),
        ("ada", "?namespace=web", (set(), "ada", True)),
        ("odd", "", (set(), "", True)),
        ("admin", "", (set(), "admin", None)),
        ("boss", "", (set(), "boss", None)),
    ],
)
async def test_users_see_their_own_work_and_that_of_namespaces_in_sight(
    guarded: httpx.AsyncClient,
    account: HeldAccount,
    token: str,
    query: str,
    seen: tuple[set[str], str, bool | None],
) -> None:
    for path in ("/v1/usage", "/v1/history"):
        answer = await guarded.get(path + query, headers={"Authorization": f"Bearer {token}"})
        (reader,) = account.readers
        account.readers.clear()
        restricted = answer.json()["metadata"].get("restricted")
        assert (set(reader.sight.namespaces), reader.user, restricted) == seen
        assert reader.sight.everything is (restricted is None)


async def test_one_without_the_right_to_ask_is_refused(
    guarded: httpx.AsyncClient, account: HeldAccount
) -> None:
    assert (await guarded.get("/v1/usage", headers={"Authorization": "Bearer no"})).status_code == 403
    assert (await guarded.get("/v1/usage")).status_code == 401
    assert account.readers == []


def test_since_is_a_day_a_time_or_how_long_ago() -> None:
    now = datetime(2026, 11, 23, 12, tzinfo=UTC)
    assert since_time("", now) == datetime(2026, 11, 1, tzinfo=UTC)
    assert since_time("2026-10-01", now) == datetime(2026, 10, 1, tzinfo=UTC)
    assert since_time("2d", now) == datetime(2026, 11, 21, 12, tzinfo=UTC)
    for text in ("soon", "9999999d", "2026-13-01"):
        with pytest.raises(BadSince):
            since_time(text, now)
