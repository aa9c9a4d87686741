"""Where alembic begins. It runs on the connection that `migrating` has put into its configuration."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"], render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
