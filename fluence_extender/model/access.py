"""Who calls a server of ours, and what the caller may see there."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from fluence_extender.model.names import STATE_GROUP, STATE_VERSION
from fluence_extender.model.wording import WithNames

SERVICE_ACCOUNT = "system:serviceaccount:"
"""The prefix of the names of service accounts; the namespace and the account's own name follow."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A user of the API server, with the server's description (authentication.k8s.io UserInfo)."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def share(self) -> str:
        """The name under which limits count the caller: all service accounts of a namespace are one.

        The users of a namespace may create any number of service accounts there.
        """
        if not self.name.startswith(SERVICE_ACCOUNT):
            return self.name
        return self.name.rpartition(":")[0]


@dataclass(frozen=True, slots=True)
class Right:
    """What RBAC grants: a ``verb`` on a ``resource``, in one ``namespace`` or in all (""), or on a ``path``.

    ``group`` is the resource's API group, "" for the core group.
    """

    verb: str
    resource: str = ""
    namespace: str = ""
    path: str = ""
    group: str = ""

    def __str__(self) -> str:
        if self.path:
            return f"{self.verb} {self.path}"
        if self.group:
            return f"{self.verb} {self.resource}.{self.group}"
        where = f"in namespace {self.namespace}" if self.namespace else "in all namespaces"
        return (
            f"{self.verb} {self.resource} {where}"
            if self.resource == "pods"
            else f"{self.verb} {self.resource}"
        )


def question(method: str, path: str) -> Right:
    """Return the right that the API server demands for a request to the state API, whose ``path`` is below /v1."""
    resource, _, name = path.removeprefix(f"/{STATE_VERSION}/").partition("/")
    verb = "create" if method == "POST" else "get" if name else "list"
    return Right(verb, resource, group=STATE_GROUP)


def new_pods_in(namespace: str) -> Right:
    """Return the right to create pods in ``namespace``."""
    return Right("create", "pods", namespace)


def pods_in(namespace: str) -> Right:
    """Return the right that shows what is in a namespace, "" for all of them."""
    return Right("list", "pods", namespace)


NODES = Right("list", "nodes")
METRICS = Right("get", path="/metrics")
ALL_PAST_WORK = Right("audit", "history", group=STATE_GROUP)
"""Shows who used what in all namespaces. It has a verb of its own, because fluence-view may get and list everything in
the group."""


@dataclass(frozen=True, slots=True)
class CallerSight:
    """The namespaces that a caller may see, of those that were asked about; ``everything`` means all of them."""

    namespaces: frozenset[str] = frozenset()
    everything: bool = False

    def __contains__(self, namespace: str) -> bool:
        return self.everything or namespace in self.namespaces

    @property
    def tag(self) -> str:
        """A text that differs between callers with different sight; "" for one who sees everything."""
        if self.everything:
            return ""
        return sha256("/".join(sorted(self.namespaces)).encode()).hexdigest()[:12]

    def wording(self, text: str, with_names: WithNames | None) -> str:
        """Return the sentence with all names if the caller may see everything that it names, otherwise ``text``."""
        if with_names is None or not (self.everything or with_names.namespaces <= self.namespaces):
            return text
        return with_names.text


EVERYTHING = CallerSight(everything=True)
