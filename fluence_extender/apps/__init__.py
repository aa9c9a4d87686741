"""The programs. Each module here composes one process from the rooms below."""
