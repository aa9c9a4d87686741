"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _who(key: bool = False) -> list[sa.Column[str]]:
    sizes = {"namespace": 63, "queue": 253, "user_name": 1024, "account": 63}
    return [sa.Column(name, sa.String(size), primary_key=key, nullable=False) for name, size in sizes.items()]


def upgrade() -> None:
    """Make the tables."""
    _make_pods()
    _make_runs()
    op.create_table(
        "daily",
        sa.Column("day", sa.Integer, primary_key=True),
        *_who(key=True),
        sa.Column("resource", sa.String(317), primary_key=True),
        sa.Column("backend", sa.String(400), primary_key=True),
        sa.Column("unit_seconds", sa.BigInteger, nullable=False),
    )
    op.create_index("daily_namespace", "daily", ["namespace", "day"])
    op.create_index("daily_user", "daily", ["user_name", "day"])
    op.create_table(
        "facts",
        sa.Column("name", sa.String(32), primary_key=True),
        sa.Column("value", sa.BigInteger, nullable=False),
    )


def _make_pods() -> None:
    op.create_table(
        "pods",
        sa.Column("uid", sa.String(64), primary_key=True),
        sa.Column("run", sa.String(32), nullable=False),
        *_who(),
        sa.Column("pod", sa.String(253), nullable=False),
        sa.Column("gang", sa.String(600), nullable=False),
        sa.Column("convention", sa.String(32), nullable=False),
        sa.Column("workload", sa.String(400), nullable=False),
        sa.Column("node", sa.String(253), nullable=False),
        sa.Column("submitted", sa.BigInteger, nullable=False),
        sa.Column("started", sa.BigInteger, nullable=False),
        sa.Column("ended", sa.BigInteger),
        sa.Column("outcome", sa.String(16)),
    )
    op.create_index("pods_run", "pods", ["run"])
    op.create_index("pods_ended", "pods", ["ended"])
    op.create_table(
        "amounts",
        sa.Column("uid", sa.String(64), primary_key=True),
        sa.Column("resource", sa.String(317), primary_key=True),
        sa.Column("backend", sa.String(400), primary_key=True),
        sa.Column("quantity", sa.BigInteger, nullable=False),
    )


def _make_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("run", sa.String(32), primary_key=True),
        *_who(),
        sa.Column("gang", sa.String(600), nullable=False),
        sa.Column("convention", sa.String(32), nullable=False),
        sa.Column("workload", sa.String(400), nullable=False),
        sa.Column("submitted", sa.BigInteger, nullable=False),
        sa.Column("started", sa.BigInteger, nullable=False),
        sa.Column("ended", sa.BigInteger),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("promised", sa.BigInteger),
        sa.Column("moves", sa.JSON, nullable=False),
        sa.Column("pods", sa.Integer, nullable=False),
        sa.Column("nodes", sa.JSON, nullable=False),
        sa.Column("amounts", sa.JSON, nullable=False),
    )
    op.create_index("runs_started", "runs", ["started", "run"])
    for name, column in (
        ("namespace", "namespace"),
        ("user", "user_name"),
        ("queue", "queue"),
        ("account", "account"),
        ("gang", "gang"),
        ("workload", "workload"),
    ):
        op.create_index(f"runs_{name}", "runs", [column, "started", "run"])


def downgrade() -> None:
    """Remove the tables."""
    for table in ("facts", "daily", "runs", "amounts", "pods"):
        op.drop_table(table)
