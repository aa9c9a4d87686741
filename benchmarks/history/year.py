"""A year of made jobs, written into the tables of the account as its writer leaves them.

Each job is a gang of one pod. Jobs start at equal distances, are charged to one of many users in turn, and the last
ones of them still run. A user has one namespace, one queue and two accounts.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from sqlalchemy import JSON, URL, Connection, Table, text

from fluence_extender.accounting import store
from fluence_extender.accounting.address import open_engine
from fluence_extender.accounting.days import Used, used
from fluence_extender.accounting.migrating import migrate
from fluence_extender.accounting.tables import DAY, amounts, pods, runs
from fluence_extender.model.accounting import WorkOutcome

DAYS = 365
USERS, NAMESPACES, QUEUES, ACCOUNTS, NODES, DEVICES = 500, 100, 30, 60, 5_000, 4
RUNNING = 2_000
LONGEST = 8 * 3600
AT_ONCE = 20_000

BEGUN = 20_454 * DAY
"""The first second of 2026."""

NOW = BEGUN + DAYS * DAY - DAY // 2
"""Noon of that year's last day, when the questions are asked."""


class Job(NamedTuple):
    """One job: its rows in each table, and what it used by day."""

    pod: dict[str, Any]
    held: list[tuple[str, str, int]]
    run: dict[str, Any]
    used: Counter[Used]


def jobs(count: int) -> Iterator[Job]:
    """Yield the jobs of the year, the first one first."""
    dice = random.Random(7)
    for number in range(count):
        user = dice.randrange(USERS)
        who = {
            "namespace": f"team-{user % NAMESPACES}",
            "queue": f"queue-{user % QUEUES}",
            "user_name": f"user-{user}",
            "account": f"grant-{(user + dice.randrange(2)) % ACCOUNTS}",
        }
        held = [("cpu", "", 1_000 * dice.randint(1, 64)), ("memory", "", 1_024 * dice.randint(1, 256))]
        if user % 10 == 0:
            held.append(("qpu", f"backend-{user // 10 % DEVICES}", 1))
        started = BEGUN + number * (NOW - BEGUN) // count
        ended = None if number >= count - RUNNING else started + dice.randint(60, LONGEST)
        yield _job(number, who, held, started, ended, f"node-{dice.randrange(NODES)}")


def _job(
    number: int,
    who: dict[str, str],
    held: list[tuple[str, str, int]],
    started: int,
    ended: int | None,
    node: str,
) -> Job:
    name = f"train-{number}"
    both = {
        "run": f"{number:032x}",
        **who,
        "gang": name,
        "convention": "job",
        "workload": f"job/{name}",
        "submitted": started - 600,
        "started": started,
        "ended": ended,
        "outcome": None if ended is None else WorkOutcome.SUCCEEDED.value,
    }
    pod = {"uid": f"{number:036x}", "pod": f"{name}-0", "node": node, **both}
    run = {**both, "promised": None, "moves": [], "pods": 1, "nodes": [node], "amounts": held}
    run["outcome"] = run["outcome"] or ""
    charged = (who["namespace"], who["queue"], who["user_name"], who["account"])
    return Job(pod, held, run, used(charged, held, started, ended))


def fill(url: URL, count: int) -> None:
    """Write the jobs of the year into an empty database, and let it know what it has."""
    engine = open_engine(url, 1, read_only=False)
    with engine.connect() as connection:
        with connection.begin():
            migrate(connection)
        charges: Counter[Used] = Counter()
        part: list[Job] = []
        for job in jobs(count):
            charges.update(job.used)
            part.append(job)
            if len(part) == AT_ONCE:
                _write(connection, part)
                part.clear()
        _write(connection, part)
        with connection.begin():
            store.add(connection, charges)
        with connection.begin():
            connection.execute(text("ANALYZE"))
    engine.dispose()


def _write(connection: Connection, part: Sequence[Job]) -> None:
    held = [
        {"uid": job.pod["uid"], "resource": resource, "backend": backend, "quantity": quantity}
        for job in part
        for resource, backend, quantity in job.held
    ]
    with connection.begin():
        for table, rows in (
            (pods, [job.pod for job in part]),
            (amounts, held),
            (runs, [job.run for job in part]),
        ):
            _put(connection, table, rows)


def _put(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows in the way in which the database takes most of them in a second."""
    names = [column.name for column in table.columns]
    packed = {column.name for column in table.columns if isinstance(column.type, JSON)}
    values = [[json.dumps(row[name]) if name in packed else row[name] for name in names] for row in rows]
    driver: Any = connection.connection.driver_connection
    with closing(driver.cursor()) as cursor:
        if connection.dialect.name == "postgresql":
            with cursor.copy(f"COPY {table.name} ({', '.join(names)}) FROM STDIN") as copy:
                for one in values:
                    copy.write_row(one)
        else:
            places = ", ".join("?" * len(names))
            cursor.executemany(f"INSERT INTO {table.name} VALUES ({places})", values)
