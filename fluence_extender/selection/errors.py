"""The errors of a selection. Each message says what to change.

SelectionError
└─ InvalidAttributeFile
"""

from __future__ import annotations


class SelectionError(ValueError):
    """No backend can be chosen, or the policy can't be read. The message is one line."""


class InvalidAttributeFile(SelectionError):
    """An attribute file can't be used. The message has one line for each fault, with its place and what to do."""
