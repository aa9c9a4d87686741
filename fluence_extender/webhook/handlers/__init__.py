"""The handlers by name, in the order in which they work unless the user says otherwise.

Each looks at what the pod said when it came (the `Subject`), so that none hangs on what another has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fluence_extender.webhook.contract import Context, Request
from fluence_extender.webhook.draft import Draft
from fluence_extender.webhook.handlers import fluxion, gang, quantum
from fluence_extender.webhook.subject import Subject

Handler = Callable[[Draft, Subject, Request, Context], None]

HANDLERS: Mapping[str, Handler] = {
    "fluxion": fluxion.handle,
    "quantum": quantum.handle,
    "gang": gang.handle,
}


def select(names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The known ones of ``names`` in their order, each once, and the unknown ones; no names select all."""
    wanted = [name.strip() for name in names if name.strip()]
    known = dict.fromkeys(name for name in wanted if name in HANDLERS)
    unknown = dict.fromkeys(name for name in wanted if name not in HANDLERS)
    return (tuple(known) if wanted else tuple(HANDLERS)), tuple(unknown)
