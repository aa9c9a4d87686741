"""Questions to the tables, and the statements for them.

Invariant: each statement is answered from an index. What ran is found in time that depends on the size of the answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Float,
    Select,
    Table,
    case,
    cast,
    func,
    literal,
    or_,
    select,
    true,
)

from fluence_extender.accounting.days import seconds_by_day
from fluence_extender.accounting.tables import DAY, amounts, daily, pods, runs
from fluence_extender.api.past import HeldDevice, StartMove, WorkRecord, in_units, is_device
from fluence_extender.model.accounting import (
    Grouping,
    HeldAmount,
    Reader,
    RunQuestion,
    UsedAmount,
)

EPOCH = date(1970, 1, 1)

AT_ONCE = 500
"""The most rows that one statement names."""

COLUMNS = {
    Grouping.QUEUE: "queue",
    Grouping.USER: "user_name",
    Grouping.NAMESPACE: "namespace",
    Grouping.ACCOUNT: "account",
}


def namespaces(connection: Connection) -> frozenset[str]:
    """Return the namespaces that have an account."""
    both = select(runs.c.namespace).union(select(daily.c.namespace))
    return frozenset(connection.scalars(both))


def usage(
    connection: Connection, by: Grouping, since: int, namespace: str, reader: Reader, now: int
) -> list[UsedAmount]:
    """Return what was used since the day of ``since``, by pods that have ended and by those that run."""
    total: Counter[tuple[str, str, str]] = Counter()
    for name, resource, backend, used in connection.execute(ended_use(by, since, namespace, reader)):
        total[_written(by, name), resource, backend] += int(used)
    for name, resource, backend, used in connection.execute(running_use(by, since, namespace, reader, now)):
        if by is Grouping.DAY:
            for day, seconds in seconds_by_day(int(name), now):
                total[_written(by, day), resource, backend] += int(used) * seconds
        else:
            total[name, resource, backend] += int(used)
    return [UsedAmount(*key, total[key]) for key in sorted(total) if total[key] > 0]


def ended_use(by: Grouping, since: int, namespace: str, reader: Reader) -> Select[Any]:
    """Return the statement for the use of pods that have ended."""
    name: ColumnElement[Any] = daily.c.day if by is Grouping.DAY else daily.c[COLUMNS[by]]
    kinds = (daily.c.resource, daily.c.backend)
    condition = _of(namespace, daily, (daily.c.day >= since // DAY) & _visible(daily, reader))
    return select(name, *kinds, _total(daily.c.unit_seconds)).where(condition).group_by(name, *kinds)


def _total(amount: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return a sum that can't overflow, even with absurd amounts."""
    return func.sum(cast(amount, Float))


def running_use(by: Grouping, since: int, namespace: str, reader: Reader, now: int) -> Select[Any]:
    """Return the statement for the use so far of pods that run.

    By day it returns what they hold, by the time since which they hold it.
    """
    first = since // DAY * DAY
    begun = case((pods.c.started > first, pods.c.started), else_=literal(first))
    if by is Grouping.DAY:
        name: ColumnElement[Any] = begun.label("begun")
        used = _total(amounts.c.quantity)
    else:
        name = pods.c[COLUMNS[by]]
        used = func.sum(cast(amounts.c.quantity, Float) * (literal(now) - begun))
    condition = _of(namespace, pods, pods.c.ended.is_(None) & _visible(pods, reader))
    kinds = (amounts.c.resource, amounts.c.backend)
    both = pods.join(amounts, amounts.c.uid == pods.c.uid)
    return select(name, *kinds, used).select_from(both).where(condition).group_by(name, *kinds)


def _written(by: Grouping, name: Any) -> str:
    """Return a name as it is shown: a day as a date."""
    return (EPOCH + timedelta(days=int(name))).isoformat() if by is Grouping.DAY else str(name)


def _of(namespace: str, table: Table, condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the condition for rows that are also of a namespace, "" for any."""
    return condition & (table.c.namespace == namespace) if namespace else condition


def _visible(table: Table, reader: Reader) -> ColumnElement[bool]:
    """Return the condition for rows that the reader may see."""
    if reader.sight.everything:
        return true()
    within = table.c.namespace.in_(sorted(reader.sight.namespaces))
    return or_(within, table.c.user_name == reader.user) if reader.user else within


def past_runs(connection: Connection, question: RunQuestion, reader: Reader) -> list[WorkRecord]:
    """Return the matching runs that the reader may see, the newest first.

    What the reader may see has several parts, and the indexes of each are searched in turn. Once enough runs are found,
    the next searches look for newer runs only. The rows are read last.
    """
    newest: list[tuple[int, str]] = []
    since = question.since
    for part in parts(question, reader):
        found = connection.execute(fitting(part, replace(question, since=since)))
        newest = sorted({*newest, *((one.started, one.run) for one in found)}, reverse=True)
        if len(newest) >= question.limit:
            del newest[question.limit :]
            since = newest[-1][0]
    rows: dict[str, Any] = {}
    for at in range(0, len(newest), AT_ONCE):
        some = select(runs).where(runs.c.run.in_([run for _, run in newest[at : at + AT_ONCE]]))
        rows |= {row["run"]: row for row in connection.execute(some).mappings()}
    return [_run(rows[run]) for _, run in newest]


def fitting(part: ColumnElement[bool], question: RunQuestion) -> Select[Any]:
    """Return the statement for the matching runs of a part: when they started, and their keys."""
    found = select(runs.c.started, runs.c.run).where(part, *_conditions(question))
    return found.order_by(runs.c.started.desc(), runs.c.run.desc()).limit(question.limit)


def parts(question: RunQuestion, reader: Reader) -> Iterator[ColumnElement[bool]]:
    """Yield the parts of what the reader may see. Each is read in order from one index."""
    if reader.sight.everything or question.user or question.gang or question.workload:
        yield _visible(runs, reader)
        return
    wanted = [question.namespace] if question.namespace else sorted(reader.sight.namespaces)
    for namespace in wanted:
        if namespace in reader.sight:
            yield runs.c.namespace == namespace
    if reader.user:
        yield runs.c.user_name == reader.user


def _conditions(question: RunQuestion) -> Iterator[ColumnElement[bool]]:
    yield runs.c.started >= question.since
    for column, wanted in (
        (runs.c.namespace, question.namespace),
        (runs.c.queue, question.queue),
        (runs.c.user_name, question.user),
        (runs.c.account, question.account),
        (runs.c.gang, question.gang),
        (runs.c.workload, question.workload),
    ):
        if wanted:
            yield column == wanted


def _run(row: Any) -> WorkRecord:
    held_amounts = [HeldAmount(*held) for held in row["amounts"]]
    return WorkRecord(
        run=row["run"],
        namespace=row["namespace"],
        name=row["gang"],
        convention=row["convention"],
        workload=row["workload"],
        queue=row["queue"],
        user=row["user_name"],
        account=row["account"],
        created=_time(row["submitted"]),
        started=_time(row["started"]),
        ended=_time(row["ended"]),
        waited=max(row["started"] - row["submitted"], 0),
        outcome=row["outcome"],
        promised=_time(row["promised"]),
        moves=tuple(StartMove(*map(_time, move)) for move in row["moves"]),
        pods=row["pods"],
        nodes=tuple(row["nodes"]),
        requests={
            held.resource: in_units(held.resource, held.quantity)
            for held in held_amounts
            if not is_device(held.resource)
        },
        devices=tuple(
            HeldDevice(held.resource, held.backend, held.quantity)
            for held in held_amounts
            if is_device(held.resource)
        ),
    )


def _time(seconds: Any) -> Any:
    """Return the time so many seconds after the epoch, None for None."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
