"""The errors of a selection. Each message says what to change.

SelectionError
├─ BadPolicy
├─ NoCandidates
└─ InvalidAttributeFile
"""

from __future__ import annotations


class SelectionError(ValueError):
    """No backend can be chosen. The message is one line, except for `InvalidAttributeFile`."""


class BadPolicy(SelectionError):
    """A policy or a constraint can't be read."""


class NoCandidates(SelectionError):
    """No backend is left after a step."""


class InvalidAttributeFile(SelectionError):
    """An attribute file can't be used. The message has one line for each fault, with its place and what to do."""
