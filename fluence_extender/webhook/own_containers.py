"""Which containers of a pod admission has added itself.

Invariant: a user's container isn't taken for one of ours because of its name; what it runs must be ours too.
"""

from __future__ import annotations

from collections.abc import Mapping

from fluence_extender.model.coordination import (
    SIDECAR_COMMAND,
    SIDECAR_CONTAINER,
    STAGE_COMMAND,
    STAGE_CONTAINER,
)
from fluence_extender.webhook.contract import Json

COMMANDS: Mapping[str, list[str]] = {
    STAGE_CONTAINER: list(STAGE_COMMAND),
    SIDECAR_CONTAINER: list(SIDECAR_COMMAND),
}


def is_own(container: Json, name: str = "") -> bool:
    """Whether ``container`` is one of ours; the one of that ``name``, if one is given."""
    named = str(container.get("name"))
    return named == (name or named) and named in COMMANDS and container.get("command") == COMMANDS[named]
