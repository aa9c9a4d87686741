"""Sums of many days, so that the use of years is added up from few rows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

DAYS = 32


def upgrade() -> None:
    """Make the table from the sums by day."""
    sizes = {"namespace": 63, "queue": 253, "user_name": 1024, "account": 63, "resource": 317, "backend": 400}
    op.create_table(
        "periods",
        sa.Column("period", sa.Integer, primary_key=True),
        *(sa.Column(name, sa.String(size), primary_key=True) for name, size in sizes.items()),
        sa.Column("unit_seconds", sa.BigInteger, nullable=False),
    )
    op.create_index("periods_namespace", "periods", ["namespace", "period"])
    op.create_index("periods_user", "periods", ["user_name", "period"])
    key = ", ".join(sizes)
    op.execute(
        f"INSERT INTO periods SELECT day / {DAYS}, {key}, SUM(unit_seconds) FROM daily GROUP BY day / {DAYS}, {key}"
    )


def downgrade() -> None:
    """Remove the table."""
    op.drop_table("periods")
