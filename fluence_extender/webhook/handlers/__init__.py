"""The handlers by name, in the order in which they work unless the user says otherwise."""

from __future__ import annotations

HANDLERS = {"fluxion": None, "quantum": None, "gang": None}
