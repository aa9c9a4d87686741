"""The programs. Each module here composes one process out of the rooms below."""
