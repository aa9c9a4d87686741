"""Why no backend can be chosen, in words that say what to change."""

from __future__ import annotations


class SelectionError(ValueError):
    """No backend can be chosen; the message is one line."""


class BadPolicy(SelectionError):
    """A policy or a constraint can't be read."""


class NoCandidates(SelectionError):
    """Backends there are, and none is left after some step."""


class InvalidAttributeFile(ValueError):
    """An attribute file can't be used; the message has one line for each fault, with its place and what to do."""
