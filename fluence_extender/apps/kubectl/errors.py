"""What ends a command, in one line that says what to do."""

from __future__ import annotations


class CommandError(Exception):
    """The command can't go on; nothing was applied. ``code`` is its exit code: 1, or 2 for wrong usage."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class UsageError(CommandError):
    """The command line can't be understood."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 2)


class KubectlFailed(Exception):
    """kubectl was asked for something and didn't give it; the message is its first line."""
