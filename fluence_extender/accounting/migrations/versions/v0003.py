"""Sums by day of what each namespace used, and indexes from which runs are filtered without their rows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

KEY = "day, resource, backend, namespace"


def upgrade() -> None:
    """Make the table from the sums by day, and widen the indexes."""
    op.create_table(
        "totals",
        sa.Column("day", sa.Integer, primary_key=True),
        sa.Column("resource", sa.String(317), primary_key=True),
        sa.Column("backend", sa.String(400), primary_key=True),
        sa.Column("namespace", sa.String(63), primary_key=True),
        sa.Column("unit_seconds", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.execute(f"INSERT INTO totals SELECT {KEY}, SUM(unit_seconds) FROM daily GROUP BY {KEY}")
    _index("namespace", "namespace", "queue", "user_name", "account")
    _index("user", "user_name", "namespace", "queue", "account")
    _index("gang", "gang", "namespace", "user_name")
    _index("workload", "workload", "namespace", "user_name")


def downgrade() -> None:
    """Remove the table, and narrow the indexes."""
    op.drop_table("totals")
    for name, column in (
        ("namespace", "namespace"),
        ("user", "user_name"),
        ("gang", "gang"),
        ("workload", "workload"),
    ):
        _index(name, column)


def _index(name: str, column: str, *more: str) -> None:
    op.drop_index(f"runs_{name}", "runs")
    op.create_index(f"runs_{name}", "runs", [column, "started", "run", *more])
