"""What is asked of the tables, and the statements for it.

Invariant: each statement is answered from an index, whatever is asked, so that its cost follows from what it returns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    case,
    func,
    literal,
    or_,
    select,
    true,
    tuple_,
)
from sqlalchemy.sql.selectable import CTE

from fluence_extender.accounting.days import seconds_by_day
from fluence_extender.accounting.tables import DAY, PERIOD, amounts, daily, periods, pods, runs
from fluence_extender.model.accounting import (
    Grouping,
    HeldAmount,
    MovedStart,
    PastRun,
    Reader,
    RunQuestion,
    UsedAmount,
)

EPOCH = date(1970, 1, 1)

COLUMNS = {
    Grouping.QUEUE: "queue",
    Grouping.USER: "user_name",
    Grouping.NAMESPACE: "namespace",
    Grouping.ACCOUNT: "account",
}


def namespaces(connection: Connection) -> frozenset[str]:
    """Return the namespaces that have an account, by one look into the index for each."""
    found: set[str] = set()
    for table in (runs, daily):
        column = table.c.namespace
        names: CTE = select(func.min(column).label("name")).cte("names", recursive=True)
        after = select(func.min(column)).where(column > names.c.name).scalar_subquery()
        names = names.union_all(select(after).where(names.c.name.is_not(None)))
        found |= {name for name in connection.scalars(select(names.c.name)) if name is not None}
    return frozenset(found)


def usage(
    connection: Connection, by: Grouping, since: int, namespace: str, reader: Reader, now: int
) -> list[UsedAmount]:
    """Return what was used since the day of ``since``, by pods that have ended and by those that run."""
    total: Counter[tuple[str, str, str]] = Counter()
    for statement in ended_use(by, since, namespace, reader):
        for name, resource, backend, used in connection.execute(statement):
            total[_written(by, name), resource, backend] += int(used)
    for name, resource, backend, used in connection.execute(running_use(by, since, namespace, reader, now)):
        if by is Grouping.DAY:
            for day, seconds in seconds_by_day(int(name), now):
                total[_written(by, day), resource, backend] += int(used) * seconds
        else:
            total[name, resource, backend] += int(used)
    return [UsedAmount(*key, total[key]) for key in sorted(total) if total[key] > 0]


def ended_use(by: Grouping, since: int, namespace: str, reader: Reader) -> Iterator[Select[Any]]:
    """Yield the statements for what has been used by pods that have ended.

    Whole periods have fewer rows than their days, so only the days before the first whole period are added up singly.
    """
    first = since // DAY
    whole = -(-first // PERIOD)
    if by is Grouping.DAY:
        yield _sums(daily.c.day, daily, daily.c.day >= first, namespace, reader)
        return
    column = COLUMNS[by]
    days = (daily.c.day >= first) & (daily.c.day < whole * PERIOD)
    yield _sums(daily.c[column], daily, days, namespace, reader)
    yield _sums(periods.c[column], periods, periods.c.period >= whole, namespace, reader)


def _sums(
    name: ColumnElement[Any], table: Table, when: ColumnElement[bool], namespace: str, reader: Reader
) -> Select[Any]:
    found: Select[Any] = select(
        name, table.c.resource, table.c.backend, func.sum(table.c.unit_seconds)
    ).where(when)
    return _only(found, table, namespace, reader).group_by(name, table.c.resource, table.c.backend)


def running_use(by: Grouping, since: int, namespace: str, reader: Reader, now: int) -> Select[Any]:
    """Return the statement for what has been used so far by pods that run.

    By day it is what they hold, by the time from which on they hold it.
    """
    first = since // DAY * DAY
    begun = case((pods.c.started > first, pods.c.started), else_=literal(first))
    if by is Grouping.DAY:
        name: ColumnElement[Any] = begun.label("begun")
        used = func.sum(amounts.c.quantity)
    else:
        name = pods.c[COLUMNS[by]]
        used = func.sum(amounts.c.quantity * (literal(now) - begun))
    found: Select[Any] = select(name, amounts.c.resource, amounts.c.backend, used).select_from(
        pods.join(amounts, amounts.c.uid == pods.c.uid)
    )
    found = _only(found.where(pods.c.ended.is_(None)), pods, namespace, reader)
    return found.group_by(name, amounts.c.resource, amounts.c.backend)


def _written(by: Grouping, name: Any) -> str:
    """Return a name as it is shown: a day as a date."""
    return (EPOCH + timedelta(days=int(name))).isoformat() if by is Grouping.DAY else str(name)


def _only(found: Select[Any], table: Any, namespace: str, reader: Reader) -> Select[Any]:
    if namespace:
        found = found.where(table.c.namespace == namespace)
    seen = _seen(table, reader)
    return found if seen is None else found.where(seen)


def _seen(table: Any, reader: Reader) -> ColumnElement[bool] | None:
    """Return what a row has to meet to be shown to the reader, None where all are shown."""
    if reader.sight.everything:
        return None
    within = table.c.namespace.in_(sorted(reader.sight.namespaces))
    return or_(within, table.c.user_name == reader.user) if reader.user else within


def past_runs(connection: Connection, question: RunQuestion, reader: Reader) -> list[PastRun]:
    """Return the runs that are asked for and that the reader may see, the newest first."""
    found: dict[str, PastRun] = {}
    for statement in run_statements(question, reader):
        for row in connection.execute(statement).mappings():
            found.setdefault(row["run"], _run(row))
    newest = sorted(found.values(), key=lambda one: (one.started, one.run), reverse=True)
    return newest[: question.limit]


def run_statements(question: RunQuestion, reader: Reader) -> Iterator[Select[Any]]:
    """Yield a statement for each part of what the reader may see; each part is read in order from one index."""
    for part in _parts(question, reader):
        found = select(runs).where(part, *_conditions(question))
        yield found.order_by(runs.c.started.desc(), runs.c.run.desc()).limit(question.limit)


def _parts(question: RunQuestion, reader: Reader) -> Iterator[ColumnElement[bool]]:
    if reader.sight.everything:
        yield true()
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
    if question.after is not None:
        started, run = question.after
        yield runs.c.started <= started
        yield tuple_(runs.c.started, runs.c.run) < tuple_(literal(started), literal(run))


def _run(row: Any) -> PastRun:
    return PastRun(
        run=row["run"],
        namespace=row["namespace"],
        gang=row["gang"],
        convention=row["convention"],
        workload=row["workload"],
        queue=row["queue"],
        user=row["user_name"],
        account=row["account"],
        submitted=row["submitted"],
        started=row["started"],
        ended=row["ended"],
        outcome=row["outcome"],
        promised=row["promised"],
        moves=tuple(MovedStart(*one) for one in row["moves"]),
        pods=row["pods"],
        nodes=tuple(row["nodes"]),
        amounts=tuple(HeldAmount(*one) for one in row["amounts"]),
    )
