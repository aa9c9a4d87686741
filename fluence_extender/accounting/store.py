"""Writing accounts of pods into the tables.

A batch is one transaction: the rows of its pods, the changes of ``daily``, and the rows of their runs, which are made
anew. So the same account can be written any number of times, in any order of batches, and counts once.

Invariants: the queue, user, namespace and account of a pod never change after its first account. An observed end stays;
only an unobserved one (`WorkOutcome.LOST`) is replaced by a better one. Pods that retention has removed aren't taken in
again. A database of a newer version is never written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Column, Connection, Table, case, delete, func, inspect, select
from sqlalchemy.dialects import postgresql, sqlite

from fluence_extender.accounting.days import Used, used
from fluence_extender.accounting.errors import NewerDatabase
from fluence_extender.accounting.tables import VERSION, amounts, daily, facts, metadata, pods, runs
from fluence_extender.model.accounting import MovedStart, PodAccount, WorkOutcome

SEEN, REMOVED, MADE = "seen", "removed", "version"
"""The facts: when the writer last saw the cluster, before when ended pods have been removed, and `VERSION`."""

AT_ONCE = 500
"""The most rows that one statement names."""

MOST_NODES = 2_000
"""The most nodes that a run's row names; its pods name all of them."""

MOST_RESOURCES = 64
"""The most resources in a pod's account. Users can name thousands in one pod."""

MOST_OF_ONE = 2**45
"""The largest quantity of one resource that counts."""

MOST_TOGETHER = 2**62
"""The largest sum that is kept."""

Row = Mapping[str, Any]
Held = list[tuple[str, str, int]]


def _upsert(connection: Connection, table: Table) -> Any:
    return (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)


def prepare(connection: Connection) -> None:
    """Make the tables where there are none. Raises `NewerDatabase`."""
    made = fact(connection, MADE) if inspect(connection).has_table(facts.name) else 0
    if made > VERSION:
        raise NewerDatabase(
            f"the database was made by a newer version of fluence-extender (its tables have version {made}, and "
            f"this one knows {VERSION}): nothing is written to it. Install that version, or name another database"
        )
    if made < VERSION:
        metadata.create_all(connection)
        put_fact(connection, MADE, VERSION)


def write(connection: Connection, batch: Sequence[PodAccount], now: int) -> None:
    """Write a batch, in the transaction of ``connection``."""
    removed = fact(connection, REMOVED)
    given = [one for one in batch if one.ended is None or one.ended > removed]
    known = _rows(connection, [one.uid for one in given])
    holding = _held(connection, list(known))
    charges: Counter[Used] = Counter()
    rows: list[Row] = []
    held: list[Row] = []
    for account in given:
        before = known.get(account.uid)
        row = _merged(account, before)
        if row is None:
            continue
        has = holding.get(account.uid, []) if before is not None else _given(account)
        _charge(charges, before, has, -1)
        _charge(charges, row, has, +1)
        rows.append(row)
        if before is None:
            held += [dict(uid=account.uid, resource=a, backend=b, quantity=c) for a, b, c in has]
    _put_pods(connection, rows)
    if held:
        connection.execute(_upsert(connection, amounts).on_conflict_do_nothing(), held)
    add(connection, charges)
    by_uid = {one.uid: one for one in given}
    with_starts: dict[str, PodAccount | None] = {}
    for row in rows:
        account = by_uid[row["uid"]]
        if row["run"] not in with_starts or account.promised is not None or account.moves:
            with_starts[row["run"]] = account
    put_runs(connection, with_starts)
    put_fact(connection, SEEN, now)


def close_lost(connection: Connection, running: frozenset[str]) -> int:
    """End the pods that have gone unobserved, at the time when the cluster was last seen; return how many."""
    seen = fact(connection, SEEN)
    still = connection.execute(select(pods).where(pods.c.ended.is_(None))).mappings().all()
    lost = [dict(one) for one in still if one["uid"] not in running]
    charges: Counter[Used] = Counter()
    holding = _held(connection, [row["uid"] for row in lost])
    for row in lost:
        row.update(ended=max(seen, row["started"]), outcome=WorkOutcome.LOST.value)
        _charge(charges, row, holding.get(row["uid"], []), +1)
    _put_pods(connection, lost)
    add(connection, charges)
    put_runs(connection, dict.fromkeys(row["run"] for row in lost))
    return len(lost)


def forget(connection: Connection, before: int) -> int:
    """Remove some of the pods that ended before a time, and runs without pods; return the number of pods."""
    found = connection.execute(
        select(pods.c.uid, pods.c.run, pods.c.ended)
        .where(pods.c.ended < before)
        .order_by(pods.c.ended)
        .limit(AT_ONCE)
    ).all()
    if not found:
        return 0
    uids = [one.uid for one in found]
    put_fact(connection, REMOVED, max(fact(connection, REMOVED), max(one.ended for one in found)))
    connection.execute(delete(amounts).where(amounts.c.uid.in_(uids)))
    connection.execute(delete(pods).where(pods.c.uid.in_(uids)))
    touched = {one.run for one in found}
    kept = set(connection.scalars(select(pods.c.run).where(pods.c.run.in_(touched))))
    connection.execute(delete(runs).where(runs.c.run.in_(touched - kept)))
    return len(uids)


def fact(connection: Connection, name: str) -> int:
    """Return a fact, 0 while it isn't known."""
    return connection.scalar(select(facts.c.value).where(facts.c.name == name)) or 0


def put_fact(connection: Connection, name: str, value: int) -> None:
    """Write a fact."""
    new = _upsert(connection, facts).values(name=name, value=value)
    connection.execute(
        new.on_conflict_do_update(index_elements=[facts.c.name], set_={"value": new.excluded.value})
    )


def add(connection: Connection, charges: Counter[Used]) -> None:
    """Add to the sums of days, in the order of their keys, so that two writers can't lock each other out."""
    names = daily.columns.keys()
    changes = {key: max(-MOST_TOGETHER, min(charges[key], MOST_TOGETHER)) for key in sorted(charges)}
    rows = [dict(zip(names, (*key, amount), strict=True)) for key, amount in changes.items() if amount]
    if rows:
        new = _upsert(connection, daily)
        before, more = daily.c.unit_seconds, new.excluded.unit_seconds
        total = case((before > MOST_TOGETHER - more, MOST_TOGETHER), else_=before + more)
        connection.execute(
            new.on_conflict_do_update(index_elements=list(daily.primary_key), set_={"unit_seconds": total}),
            rows,
        )


def put_runs(connection: Connection, with_starts: Mapping[str, PodAccount | None]) -> None:
    """Make the rows of runs anew from their pods. Their promised starts stay unless ``with_starts`` has new ones."""
    keys = list(with_starts)
    for at in range(0, len(keys), AT_ONCE):
        rows = _run_rows(connection, keys[at : at + AT_ONCE])
        for row in rows:
            known = with_starts[row["run"]]
            row["promised"] = known.promised if known is not None else None
            row["moves"] = _moves(known.moves if known is not None else ())
        silent = [row for row in rows if row["promised"] is None and not row["moves"]]
        _put_run_rows(connection, silent, frozenset({"run", "promised", "moves"}))
        promised = [row for row in rows if row["promised"] is not None or row["moves"]]
        _put_run_rows(connection, promised, frozenset({"run"}))


def _put_run_rows(connection: Connection, rows: list[dict[str, Any]], kept: frozenset[str]) -> None:
    if rows:
        new = _upsert(connection, runs)
        changed = {name: new.excluded[name] for name in rows[0] if name not in kept}
        connection.execute(new.on_conflict_do_update(index_elements=[runs.c.run], set_=changed), rows)


def _moves(moves: Sequence[MovedStart]) -> list[list[object]]:
    return [[one.at, one.promised, one.start] for one in moves]


def _run_rows(connection: Connection, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of runs that follow from their pods, without promised starts."""
    wanted = select(pods).where(pods.c.run.in_(keys)).order_by(pods.c.started, pods.c.uid)
    members: dict[str, list[Any]] = {}
    for pod in connection.execute(wanted):
        members.setdefault(pod.run, []).append(pod)
    together = (
        select(pods.c.run, amounts.c.resource, amounts.c.backend, func.sum(amounts.c.quantity))
        .join(amounts, pods.c.uid == amounts.c.uid)
        .where(pods.c.run.in_(keys))
        .group_by(pods.c.run, amounts.c.resource, amounts.c.backend)
        .order_by(amounts.c.resource, amounts.c.backend)
    )
    held: dict[str, list[list[object]]] = {}
    for run, resource, backend, quantity in connection.execute(together):
        held.setdefault(run, []).append([resource, backend, int(quantity)])
    return [_run_row(found, held.get(run, [])) for run, found in members.items()]


def _run_row(members: Sequence[Any], held: list[list[object]]) -> dict[str, Any]:
    first = members[0]
    ends = [one.ended for one in members]
    over = None not in ends
    same = ("run", "namespace", "queue", "user_name", "account", "gang", "convention")
    return {
        **{name: getattr(first, name) for name in same},
        "workload": first.workload if len({one.workload for one in members}) == 1 else "",
        "submitted": min(one.submitted for one in members),
        "started": first.started,
        "ended": max(ends) if over else None,
        "outcome": together_ended(one.outcome for one in members) if over else "",
        "pods": len(members),
        "nodes": list(dict.fromkeys(one.node for one in members))[:MOST_NODES],
        "amounts": held,
    }


def together_ended(outcomes: Iterable[str | None]) -> str:
    """Return how a gang with these outcomes of its members has ended: the worst of them."""
    found = set(outcomes)
    return next((one.value for one in WORST if one.value in found), "")


WORST = (
    WorkOutcome.FAILED,
    WorkOutcome.EVICTED,
    WorkOutcome.REJECTED,
    WorkOutcome.DELETED,
    WorkOutcome.LOST,
    WorkOutcome.SUCCEEDED,
)


def _rows(connection: Connection, uids: Sequence[str]) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for at in range(0, len(uids), AT_ONCE):
        some = select(pods).where(pods.c.uid.in_(uids[at : at + AT_ONCE]))
        found |= {one["uid"]: dict(one) for one in connection.execute(some).mappings()}
    return found


def _held(connection: Connection, uids: Sequence[str]) -> dict[str, Held]:
    found: dict[str, Held] = {}
    for at in range(0, len(uids), AT_ONCE):
        some = select(amounts).where(amounts.c.uid.in_(uids[at : at + AT_ONCE]))
        for one in connection.execute(some):
            found.setdefault(one.uid, []).append((one.resource, one.backend, one.quantity))
    return found


def _given(account: PodAccount) -> Held:
    """Return what a pod holds. Users can name any resources, so only the allowed number is kept."""
    held: dict[tuple[str, str], int] = {}
    for one in sorted(account.amounts, key=lambda one: "/" in one.resource)[:MOST_RESOURCES]:
        key = kept_text(amounts.c.resource, one.resource), kept_text(amounts.c.backend, one.backend)
        held[key] = min(held.get(key, 0) + one.quantity, MOST_OF_ONE)
    return [(*key, quantity) for key, quantity in held.items()]


def kept_text(column: Column[str], text: str) -> str:
    """Return a text cut to the size of the column, because users can choose some texts freely."""
    size = column.type.length  # type: ignore[attr-defined]
    return text.replace("\0", "").encode("utf-8", "replace")[:size].decode("utf-8", "ignore")


def _merged(account: PodAccount, before: Row | None) -> Row | None:
    """Return a pod's new row, None if it stays the same."""
    outcome = account.outcome.value if account.outcome is not None else None
    if before is None:
        texts = {
            "uid": account.uid,
            "run": account.run,
            "namespace": account.namespace,
            "queue": account.queue,
            "user_name": account.user,
            "account": account.account,
            "pod": account.pod,
            "gang": account.gang,
            "convention": account.convention,
            "workload": account.workload,
            "node": account.node,
        }
        return {
            **{name: kept_text(pods.c[name], text) for name, text in texts.items()},
            "submitted": account.submitted,
            "started": account.started,
            "ended": account.ended,
            "outcome": outcome,
        }
    if before["ended"] is not None and before["outcome"] != WorkOutcome.LOST.value:
        return None
    return {
        **before,
        "started": account.started,
        "ended": account.ended,
        "outcome": outcome,
    }


def _charge(charges: Counter[Used], row: Row | None, held: Held, sign: int) -> None:
    if row is None:
        return
    who = (row["namespace"], row["queue"], row["user_name"], row["account"])
    for key, amount in used(who, held, row["started"], row["ended"]).items():
        charges[key] += sign * amount


def _put_pods(connection: Connection, rows: Sequence[Row]) -> None:
    if not rows:
        return
    new = _upsert(connection, pods)
    changed = {name: new.excluded[name] for name in ("started", "ended", "outcome")}
    connection.execute(
        new.on_conflict_do_update(index_elements=[pods.c.uid], set_=changed), [dict(row) for row in rows]
    )
