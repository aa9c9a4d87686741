"""Following pods by level: for those who keep something of each pod that they see.

Invariant: after a list nothing is kept of a pod that it lacks, whatever was missed before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fluence_extender.cluster.port import Changed, Kind, Listed, Observation
from fluence_extender.model.pod import Pod


def follow_pods(
    seen: Observation, known: Iterable[str], put: Callable[[Pod], None], drop: Callable[[str], None]
) -> bool:
    """``put`` each pod that ``seen`` shows and ``drop`` the uid of each that is gone; whether it is about pods.

    ``known`` are the uids of which something is kept: what of them a list lacks is gone.
    """
    if seen.kind is not Kind.POD:
        return False
    if isinstance(seen, Listed):
        listed = {one.uid: one for one in seen.objects if isinstance(one, Pod)}
        for uid in [uid for uid in known if uid not in listed]:
            drop(uid)
        for pod in listed.values():
            put(pod)
    elif isinstance(seen.object, Pod):
        if isinstance(seen, Changed):
            put(seen.object)
        else:
            drop(seen.object.uid)
    return True
