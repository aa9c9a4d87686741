"""What is asked of the account: each reader sees what he may, in order, and from an index."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Connection, Select, text

from fluence_extender.accounting import store
from fluence_extender.accounting.queries import (
    ended_use,
    fitting,
    namespaces,
    parts,
    past_runs,
    running_use,
    usage,
)
from fluence_extender.accounting.tables import DAY
from fluence_extender.model.accounting import Grouping, PodAccount, Reader, RunQuestion
from tests.unit.accounting.accounts import ALL, HOUR, NOON, pod, seeing

WORK = (
    pod("a", ended=NOON + HOUR),
    pod("b", started=NOON + 10, namespace="team", user="eve", queue="default", account="", gang="big"),
    pod("c", started=NOON + 20, namespace="team", user="ada", workload="job/other", ended=NOON + 50),
    pod("d", started=NOON + DAY, namespace="web", user="bob", ended=NOON + DAY + 60),
)


@pytest.fixture
def filled(connection: Connection) -> Connection:
    with connection.begin():
        store.write(connection, WORK, NOON)
    return connection


def names(found: Any) -> list[str]:
    return [one.run.removeprefix("run-") for one in found]


@pytest.mark.parametrize(
    ("question", "reader", "found"),
    [
        (RunQuestion(), ALL, "dcba"),
        (RunQuestion(namespace="team"), ALL, "cb"),
        (RunQuestion(user="ada"), ALL, "ca"),
        (RunQuestion(queue="default"), ALL, "b"),
        (RunQuestion(account="grant", since=NOON + 1), ALL, "dc"),
        (RunQuestion(gang="big"), ALL, "b"),
        (RunQuestion(workload="job/other"), ALL, "c"),
        (RunQuestion(limit=2), ALL, "dc"),
        (RunQuestion(), seeing("team"), "cb"),
        (RunQuestion(), seeing("team", "web"), "dcb"),
        (RunQuestion(), seeing(user="ada"), "ca"),
        (RunQuestion(), seeing("lab", user="eve"), "ba"),
        (RunQuestion(namespace="team"), seeing("team", user="ada"), "cb"),
        (RunQuestion(namespace="team"), seeing(user="ada"), "c"),
        (RunQuestion(user="eve"), seeing(user="ada"), ""),
        (RunQuestion(), seeing(), ""),
    ],
)
def test_runs_are_found_that_the_reader_may_see(
    filled: Connection, question: RunQuestion, reader: Reader, found: str
) -> None:
    assert names(past_runs(filled, question, reader)) == list(found)


@pytest.mark.parametrize(
    ("by", "namespace", "reader", "cores"),
    [
        (Grouping.USER, "", ALL, {"ada": 7260.0, "eve": 180.0, "bob": 120.0}),
        (Grouping.QUEUE, "", ALL, {"physics": 7380.0, "default": 180.0}),
        (Grouping.NAMESPACE, "", ALL, {"lab": 7200.0, "team": 240.0, "web": 120.0}),
        (Grouping.ACCOUNT, "", ALL, {"grant": 7380.0, "": 180.0}),
        (Grouping.USER, "team", ALL, {"ada": 60.0, "eve": 180.0}),
        (Grouping.USER, "", seeing("web"), {"bob": 120.0}),
        (Grouping.USER, "", seeing(user="eve"), {"eve": 180.0}),
        (Grouping.NAMESPACE, "", seeing("web", user="ada"), {"lab": 7200.0, "team": 60.0, "web": 120.0}),
        (Grouping.USER, "", seeing(), {}),
        (Grouping.DAY, "", ALL, {"2024-10-04": 7440.0, "2024-10-05": 120.0}),
        (Grouping.DAY, "", seeing("web"), {"2024-10-05": 120.0}),
        (Grouping.DAY, "", seeing("team", "web", user="ada"), {"2024-10-04": 7440.0, "2024-10-05": 120.0}),
        (Grouping.DAY, "team", seeing("web", user="ada"), {"2024-10-04": 60.0}),
        (Grouping.DAY, "", seeing(user="bob"), {"2024-10-05": 120.0}),
    ],
)
def test_use_is_added_up_that_the_reader_may_see(
    filled: Connection, by: Grouping, namespace: str, reader: Reader, cores: dict[str, float]
) -> None:
    found = usage(filled, by, NOON, namespace, reader, NOON + 100)
    assert {one.name: one.unit_seconds / 1000 for one in found if one.resource == "cpu"} == cores


def test_use_before_the_first_day_is_left_out(filled: Connection) -> None:
    found = usage(filled, Grouping.USER, NOON + DAY, "", ALL, NOON + DAY)
    cores = {one.name: one.unit_seconds // 1000 for one in found if one.resource == "cpu"}
    assert cores == {"bob": 120, "eve": 2 * DAY // 2}


@pytest.mark.parametrize("days_before", [0, 1, 31, 32, 33, 100])
@pytest.mark.parametrize("by", list(Grouping))
def test_use_of_many_days_is_what_they_have_together(
    connection: Connection, by: Grouping, days_before: int
) -> None:
    days = range(120)
    batch = [pod(f"p{day}", started=NOON + day * DAY, ended=NOON + day * DAY + HOUR) for day in days]
    with connection.begin():
        store.write(connection, batch, NOON)
    found = usage(connection, by, NOON + (120 - days_before) * DAY, "", ALL, NOON + 121 * DAY)
    cores = sum(one.unit_seconds // 1000 for one in found if one.resource == "cpu")
    assert cores == days_before * 2 * HOUR


def test_use_of_what_runs_is_divided_among_the_days(filled: Connection) -> None:
    found = usage(filled, Grouping.DAY, NOON + DAY, "team", ALL, NOON + 2 * DAY)
    cores = {one.name: one.unit_seconds // 1000 for one in found if one.resource == "cpu"}
    assert cores == {"2024-10-05": 2 * DAY, "2024-10-06": 2 * DAY // 2}


def test_namespaces_of_all_times_are_known(filled: Connection) -> None:
    assert namespaces(filled) == {"lab", "team", "web"}


def statements() -> list[Select[Any]]:
    """One statement of each form."""
    some = seeing("team", "lab", user="ada")
    asked = [RunQuestion(), RunQuestion(namespace="a"), RunQuestion(queue="a"), RunQuestion(user="a")]
    asked += [RunQuestion(account="a"), RunQuestion(gang="a"), RunQuestion(workload="a", namespace="a")]
    asked += [RunQuestion(since=NOON - DAY)]
    both = [(question, reader) for question in asked for reader in (ALL, some)]
    return [
        *(fitting(part, question) for question, reader in both for part in parts(question, reader)),
        *(ended_use(by, NOON, "", reader) for by in Grouping for reader in (ALL, some)),
        *(running_use(by, NOON, "", reader, NOON) for by in Grouping for reader in (ALL, some)),
    ]


def test_each_question_is_answered_from_an_index(connection: Connection) -> None:
    fill(connection)
    if connection.dialect.name == "postgresql":
        # A table that fits on few pages is scanned faster; what counts is that there is another way.
        connection.execute(text("SET enable_seqscan = off"))
    for statement in statements():
        plan = explained(connection, statement)
        assert not any(line.startswith("SCAN") or "Seq Scan" in line for line in plan), (str(statement), plan)
        assert any(word in line for line in plan for word in ("INDEX", "Index", "PRIMARY KEY")), (
            str(statement),
            plan,
        )
        # Runs are read in order, so that nobody's many runs have to be sorted for the newest of them.
        assert not any("ORDER BY" in line for line in plan), (str(statement), plan)


def fill(connection: Connection) -> None:
    """Write so much that looking at all of it is dearer than an index, and let the database know."""
    batch: list[PodAccount] = []
    for number in range(1000):
        who = {"namespace": f"n{number % 50}", "user": f"u{number % 40}", "queue": f"q{number % 9}"}
        more = {"gang": f"g{number}", "workload": f"job/g{number}", "account": f"a{number % 20}"}
        at = NOON - number * HOUR
        ended = None if number % 100 == 0 else at + HOUR
        batch.append(pod(f"p{number}", started=at, ended=ended, **who, **more))
    with connection.begin():
        store.write(connection, batch, NOON)
    with connection.begin():
        connection.execute(text("ANALYZE"))


def explained(connection: Connection, statement: Select[Any]) -> list[str]:
    """Return the lines of the database's plan for a statement."""
    compiled = statement.compile(connection, compile_kwargs={"literal_binds": True})
    postgresql = connection.dialect.name == "postgresql"
    word = "EXPLAIN" if postgresql else "EXPLAIN QUERY PLAN"
    rows = connection.exec_driver_sql(
        f"{word} {compiled}".replace("%", "%%") if postgresql else f"{word} {compiled}"
    )
    return [str(row[0] if postgresql else row[3]) for row in rows]
