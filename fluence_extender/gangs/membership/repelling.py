"""Which namespaces have pods that others may keep away from their nodes.

A pod's required anti-affinity may forbid other pods to run beside it. The placement core doesn't judge such rules; it
leaves them to kube-scheduler. So a pod may be bound at birth, before kube-scheduler sees it, only if no pod keeps it
away. This is judged for whole namespaces, because nearly all such rules are about pods of the same namespace.

A pod that waits for another scheduler may get any node at any moment, and may want the same room. So while one waits,
no pod of any namespace is bound at birth, and kube-scheduler sees ours before it is bound.
"""

from __future__ import annotations

from collections import Counter

from fluence_extender.model.pod import Pod

ANY = "*"


class Repelling:
    """Counts the pods that may keep others away, by the namespaces of the pods that they keep away."""

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
