"""Which namespaces have pods that others may keep away from their nodes.

A pod may forbid others to run beside it (required anti-affinity), whatever these say themselves. kube-scheduler sees to
that; the placement core leaves it to kube-scheduler. So pods that kube-scheduler won't see before they are bound may
only be created where nobody keeps them away. Whole namespaces are told apart, because nearly all such rules are about
pods of the same namespace.

A pod that waits for another scheduler may get any node at any moment. So while one waits, all namespaces count: of two
pods that want the same room, kube-scheduler then sees ours before it is bound.
"""

from __future__ import annotations

from collections import Counter

from fluence_extender.model.pod import Pod

ANY = "*"


class Repelling:
    """Counts the pods that may keep others away, by the namespaces of these."""

    def __init__(self) -> None:
        self._by_pod: dict[str, tuple[str, ...]] = {}
        self._pods: Counter[str] = Counter()

    def put(self, pod: Pod) -> None:
        """Take in a pod that is new or has changed."""
        contends = not pod.ours and not pod.node and not pod.gates
        self._count(pod.uid, () if pod.finished else (ANY,) if contends else pod.repels)

    def drop(self, uid: str) -> None:
        """Forget a pod."""
        self._count(uid, ())

    def keeps_away(self, namespace: str) -> bool:
        """Return whether a pod of this namespace may be kept away from some node."""
        return self._pods[namespace] > 0 or self._pods[ANY] > 0

    def _count(self, uid: str, repels: tuple[str, ...]) -> None:
        if not repels and uid not in self._by_pod:
            return
        self._pods.subtract(self._by_pod.pop(uid, ()))
        if repels:
            self._by_pod[uid] = repels
            self._pods.update(repels)
