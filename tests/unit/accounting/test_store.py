"""Accounts are written once however often they are stated, and what is added up follows from them."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from sqlalchemy import Connection, func, inspect, select, update

from fluence_extender.accounting import store
from fluence_extender.accounting.days import Used, seconds_by_day, used
from fluence_extender.accounting.errors import NewerDatabase
from fluence_extender.accounting.queries import past_runs, usage
from fluence_extender.accounting.tables import DAY, VERSION, amounts, daily, facts, metadata, pods, runs
from fluence_extender.api.past import HeldDevice, StartMove
from fluence_extender.model.accounting import (
    Grouping,
    HeldAmount,
    MovedStart,
    PodAccount,
    RunQuestion,
    WorkOutcome,
)
from tests.unit.accounting.accounts import ALL, HOUR, NOON, pod


def write(connection: Connection, *batch: PodAccount, now: int = NOON) -> None:
    with connection.begin():
        store.write(connection, batch, now)


def used_by(
    connection: Connection, by: Grouping = Grouping.USER, now: int = NOON
) -> dict[tuple[str, str], int]:
    with connection.begin():
        found = usage(connection, by, 0, "", ALL, now)
    return {(one.name, one.resource): one.unit_seconds for one in found}


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def test_tables_are_made_once(connection: Connection) -> None:
    write(connection, pod("a", ended=NOON + HOUR))
    with connection.begin():
        store.prepare(connection)
        assert set(inspect(connection).get_table_names()) == set(metadata.tables)
        assert store.fact(connection, store.MADE) == VERSION
    assert used_by(connection)["ada", "cpu"] == 2000 * HOUR


def test_database_of_a_newer_version_is_refused(connection: Connection) -> None:
    with connection.begin():
        connection.execute(update(facts).where(facts.c.name == store.MADE).values(value=VERSION + 1))
    with (
        pytest.raises(NewerDatabase, match="Install that version, or name another database"),
        connection.begin(),
    ):
        store.prepare(connection)


def test_seconds_are_divided_among_days() -> None:
    assert list(seconds_by_day(DAY - 10, 2 * DAY + 5)) == [(0, 10), (1, DAY), (2, 5)]
    assert list(seconds_by_day(DAY, DAY)) == []


def test_account_that_is_written_again_counts_once(connection: Connection) -> None:
    ended = pod("a", ended=NOON + HOUR)
    for _ in range(3):
        write(connection, pod("a"))
        write(connection, ended)
    assert used_by(connection) == {("ada", "cpu"): 2000 * HOUR, ("ada", "qpu"): HOUR}


def test_pod_that_runs_counts_up_to_now(connection: Connection) -> None:
    write(connection, pod("a"))
    assert used_by(connection, now=NOON + 60)["ada", "cpu"] == 2000 * 60
    write(connection, pod("a", ended=NOON + 90))
    assert used_by(connection, now=NOON + HOUR)["ada", "cpu"] == 2000 * 90


def test_later_start_replaces_the_first_one(connection: Connection) -> None:
    write(connection, pod("a"))
    write(connection, pod("a", started=NOON + 30, ended=NOON + 90))
    assert used_by(connection)["ada", "cpu"] == 2000 * 60


def test_use_stays_with_whom_it_was_charged_to_first(connection: Connection) -> None:
    write(connection, pod("a"))
    write(connection, pod("a", user="eve", queue="other", run="other", ended=NOON + 60))
    assert set(used_by(connection)) == {("ada", "cpu"), ("ada", "qpu")}


def test_end_that_was_seen_stays(connection: Connection) -> None:
    write(connection, pod("a", ended=NOON + 60))
    write(connection, pod("a", ended=NOON + HOUR, outcome=WorkOutcome.FAILED))
    write(connection, pod("a"))
    assert used_by(connection)["ada", "cpu"] == 2000 * 60


def test_pod_that_ended_unseen_is_charged_until_the_cluster_was_last_seen(connection: Connection) -> None:
    write(connection, pod("a"), pod("b"), now=NOON + 100)
    with connection.begin():
        assert store.close_lost(connection, frozenset({"b"})) == 1
    (lost,) = [one for one in past_runs(connection, RunQuestion(), ALL) if one.run == "run-a"]
    connection.rollback()
    assert (lost.ended, lost.outcome) == (at(NOON + 100), "Lost")
    write(connection, pod("a", ended=NOON + 40), now=NOON + 200)
    write(connection, pod("b", ended=NOON + 60), now=NOON + 200)
    assert used_by(connection)["ada", "cpu"] == 2000 * 100


def test_run_is_made_of_its_pods(connection: Connection) -> None:
    moved = MovedStart(NOON - 60, NOON - 30, None)
    first = pod("a", run="r", promised=NOON - 30, moves=(moved,))
    second = pod("b", run="r", node="n2", started=NOON + 5, ended=NOON + 10, outcome=WorkOutcome.FAILED)
    write(connection, first, second)
    (run,) = past_runs(connection, RunQuestion(), ALL)
    connection.rollback()
    assert (run.pods, run.nodes, run.started, run.ended, run.outcome) == (2, ("n1", "n2"), at(NOON), None, "")
    assert run.requests == {"cpu": 4.0}
    assert run.devices == (HeldDevice("qpu", "ibm-a", 2),)
    write(connection, replace(first, ended=NOON + 20, outcome=WorkOutcome.SUCCEEDED, promised=None, moves=()))
    (run,) = past_runs(connection, RunQuestion(), ALL)
    assert (run.ended, run.outcome, run.promised) == (at(NOON + 20), "Failed", at(NOON - 30))
    assert run.moves == (StartMove(at(NOON - 60), at(NOON - 30), None),)


def test_retention_removes_pods_and_keeps_what_was_used(connection: Connection) -> None:
    old, new = pod("old", ended=NOON + 60), pod("new", started=NOON + DAY, ended=NOON + DAY + 60)
    write(connection, old, new)
    before = used_by(connection)
    with connection.begin():
        assert store.forget(connection, NOON + DAY) == 1
        assert store.forget(connection, NOON + DAY) == 0
    write(connection, old)
    assert used_by(connection) == before
    with connection.begin():
        kept = [list(connection.scalars(select(table.c[name]).distinct())) for table, name in COLUMNS]
    assert kept == [["new"], ["new"], ["run-new"]]


def test_whatever_users_name_is_kept_as_far_as_it_can_be(connection: Connection) -> None:
    """Owners' kinds, users' names and extended resources are what somebody has written, within the API's limits."""
    absurd = [HeldAmount(f"example.com/r{number:04}", "\0", 2**63 - 1) for number in range(2000)]
    held = (*absurd, HeldAmount("cpu", "", 2000), HeldAmount("qpu", "ibm\ud800", 1))
    texts = {"workload": "é" * 1000, "user": "\0" + "u" * 3000, "gang": "\ud800" * 700, "pod": "p\0"}
    many = [pod(f"p{number}", amounts=held, **texts) for number in range(2)]
    write(connection, *many)
    used_by(connection, now=NOON + 70 * DAY)
    for number in range(2):
        write(connection, replace(many[number], ended=NOON + 70 * DAY, outcome=WorkOutcome.SUCCEEDED))
    used = used_by(connection, Grouping.NAMESPACE)
    assert used["lab", "cpu"] == 2 * 2000 * 70 * DAY
    assert used["lab", "example.com/r0000"] > 2**62
    assert len(used) == store.MOST_RESOURCES
    (run,) = past_runs(connection, RunQuestion(limit=1), ALL)
    assert run.user == "u" * 1024
    assert run.workload == "é" * 200


COLUMNS = ((pods, "uid"), (amounts, "uid"), (runs, "run"))


@pytest.mark.parametrize("seed", range(3))
def test_sums_follow_from_pods_whatever_was_stated(connection: Connection, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(25):
        batch = {}
        for _ in range(chance.randint(1, 6)):
            uid = f"p{chance.randint(0, 9)}"
            started = NOON + chance.randint(0, 2 * DAY)
            ended = chance.choice([None, started + chance.randint(0, 2 * DAY)])
            fields = {"user": chance.choice("xy"), "run": f"r{chance.randint(0, 3)}"}
            batch[uid] = pod(uid, started=started, ended=ended, **fields)
        write(connection, *batch.values(), now=NOON)
        if chance.random() < 0.3:
            with connection.begin():
                store.close_lost(connection, frozenset(f"p{chance.randint(0, 9)}" for _ in range(5)))
    with connection.begin():
        expected: Counter[Used] = Counter()
        for row in connection.execute(select(pods)):
            who = (row.namespace, row.queue, row.user_name, row.account)
            expected.update(used(who, [("cpu", "", 2000), ("qpu", "ibm-a", 1)], row.started, row.ended))
        sums = {tuple(row)[:-1]: row[-1] for row in connection.execute(select(daily)) if row[-1]}
        assert sums == dict(expected)
        counted = {row.run: row.pods for row in connection.execute(select(runs.c.run, runs.c.pods))}
        by_run = select(pods.c.run, func.count().label("pods")).group_by(pods.c.run)
        assert counted == {row.run: row.pods for row in connection.execute(by_run)}
