"""How the tables came to be, a step for each version that changed them (alembic)."""
