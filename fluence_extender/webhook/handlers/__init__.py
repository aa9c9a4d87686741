"""The handlers by name, in the order in which they work unless the user chooses another.

Each handler uses the pod's original declaration (the `PodDeclaration`), so none depends on the changes of another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fluence_extender.webhook.contract import AdmissionRequest, Context
from fluence_extender.webhook.declaration import PodDeclaration
from fluence_extender.webhook.draft import Draft
from fluence_extender.webhook.handlers import fluxion, gang, quantum

Handler = Callable[[Draft, PodDeclaration, AdmissionRequest, Context], None]

HANDLERS: Mapping[str, Handler] = {
    "fluxion": fluxion.handle,
    "quantum": quantum.handle,
    "gang": gang.handle,
}


def select(names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the known handlers of ``names``, in order and each once, and the unknown names. No names select all."""
    wanted = [name.strip() for name in names if name.strip()]
    known = dict.fromkeys(name for name in wanted if name in HANDLERS)
    unknown = dict.fromkeys(name for name in wanted if name not in HANDLERS)
    return (tuple(known) if wanted else tuple(HANDLERS)), tuple(unknown)
