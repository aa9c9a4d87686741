"""The errors that end a command. Each message is for the user, on one line, and says what to do.

CommandError          exit code 1
├─ UsageError         exit code 2
├─ KubectlFailed
└─ StateApiError
   ├─ NotFound
   └─ Withheld
"""

from __future__ import annotations

from collections.abc import Iterable


class CommandError(Exception):
    """The command can't go on, and nothing was applied. ``code`` is the exit code."""

    code = 1


class UsageError(CommandError):
    """The command line is wrong."""

    code = 2


class KubectlFailed(CommandError):
    """A call of kubectl failed; the message is the last line of its error output."""


class StateApiError(CommandError):
    """The service didn't answer."""


class Withheld(StateApiError):
    """The service shows this only to users with a right that the user lacks; the message names the right."""


class NotFound(StateApiError):
    """The service has nothing under the path, or nothing that this version of the plugin can read."""


def nearest(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return advice for a name that doesn't exist: the most similar of the ``known`` names, or ``otherwise``."""
    # Loaded only for a mistake, because every command imports this module.
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), n=1)
    return f'did you mean "{close[0]}"?' if close else otherwise
