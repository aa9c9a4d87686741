"""The tables of the account.

* ``pods``: one row for each pod that had a node, with its ``amounts``. They are the facts.
* ``runs``: one row for each life of a gang, made from the rows of its pods.
* ``daily``: what was used on each day (UTC) by the pods that have ended, for years.
* ``facts``: the version of these tables, until when the writer has seen the cluster, and until when pods have been
  removed.

Invariants: the rows of ``runs`` and of ``daily`` follow from those of ``pods``, and each transaction changes them
together. All amounts are integers, so what is added and taken away again leaves nothing. Times are seconds since the
epoch; a ``day`` is their quotient by 86,400.
"""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, Index, Integer, MetaData, String, Table

metadata = MetaData()

VERSION = 1
"""The version of the tables, which grows with each change of them."""

DAY = 86_400


def _owner_columns() -> list[Column[str]]:
    return [
        Column("namespace", String(63), nullable=False),
        Column("queue", String(253), nullable=False),
        Column("user_name", String(1024), nullable=False),
        Column("account", String(63), nullable=False),
    ]


pods = Table(
    "pods",
    metadata,
    Column("uid", String(64), primary_key=True),
    Column("run", String(32), nullable=False),
    *_owner_columns(),
    Column("pod", String(253), nullable=False),
    Column("gang", String(600), nullable=False),
    Column("convention", String(32), nullable=False),
    Column("workload", String(400), nullable=False),
    Column("node", String(253), nullable=False),
    Column("submitted", BigInteger, nullable=False),
    Column("started", BigInteger, nullable=False),
    Column("ended", BigInteger),
    Column("outcome", String(16)),
    Index("pods_run", "run"),
    Index("pods_ended", "ended"),
)

amounts = Table(
    "amounts",
    metadata,
    Column("uid", String(64), primary_key=True),
    Column("resource", String(317), primary_key=True),
    Column("backend", String(400), primary_key=True),
    Column("quantity", BigInteger, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("run", String(32), primary_key=True),
    *_owner_columns(),
    Column("gang", String(600), nullable=False),
    Column("convention", String(32), nullable=False),
    Column("workload", String(400), nullable=False),
    Column("submitted", BigInteger, nullable=False),
    Column("started", BigInteger, nullable=False),
    Column("ended", BigInteger),
    Column("outcome", String(16), nullable=False),
    Column("promised", BigInteger),
    Column("moves", JSON, nullable=False),
    Column("pods", Integer, nullable=False),
    Column("nodes", JSON, nullable=False),
    Column("amounts", JSON, nullable=False),
    Index("runs_started", "started", "run"),
    Index("runs_namespace", "namespace", "started", "run", "queue", "user_name", "account"),
    Index("runs_user", "user_name", "started", "run", "namespace", "queue", "account"),
    Index("runs_queue", "queue", "started", "run"),
    Index("runs_account", "account", "started", "run"),
    Index("runs_gang", "gang", "started", "run", "namespace", "user_name"),
    Index("runs_workload", "workload", "started", "run", "namespace", "user_name"),
)
"""The wider indexes have what runs are filtered by, so that those that don't fit are passed over without their rows."""


daily = Table(
    "daily",
    metadata,
    Column("day", Integer, primary_key=True),
    *(Column(column.name, column.type, primary_key=True) for column in _owner_columns()),
    Column("resource", String(317), primary_key=True),
    Column("backend", String(400), primary_key=True),
    Column("unit_seconds", BigInteger, nullable=False),
    Index("daily_namespace", "namespace", "day"),
    Index("daily_user", "user_name", "day"),
)

facts = Table(
    "facts",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("value", BigInteger, nullable=False),
)
