"""What happens to a cluster, as plain values: workloads, their ends, and disturbances.

A script is a pure function of its seed (see `script`); nothing here knows of a real cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

LASTING, BRIEF = NAMESPACES = ("chaos", "chaos-brief")
"""The namespaces of workloads; the second one may be deleted with everything in it."""


class Form(StrEnum):
    """The forms of workloads."""

    LABELLED = "labelled pods"
    MIXED = "labelled pods of two shapes"
    NATIVE = "pods of a native PodGroup"
    JOB = "indexed Job"
    POOL = "labelled pods of one pool of nodes"
    PACKED = "pods of a native PodGroup that share a pool of nodes"
    QUANTUM = "labelled pods with a device each"
    FOREIGN = "pods of default-scheduler"


GROUPED = (Form.NATIVE, Form.PACKED)
"""The forms with a PodGroup."""

OURS = tuple(form for form in Form if form is not Form.FOREIGN)


@dataclass(frozen=True, slots=True)
class Create:
    """Create a workload of ``members`` pods of ``millicores`` each, which run for ``seconds`` (0 means for ever).

    In a mixed workload every second member requests twice as much. A workload of one pool names that ``pool``.
    """

    name: str
    form: Form
    members: int
    millicores: int
    seconds: int = 0
    namespace: str = LASTING
    pool: str = ""

    def __str__(self) -> str:
        life = f" for {self.seconds} s" if self.seconds else ""
        where = f" in {self.namespace}" if self.namespace != LASTING else ""
        return f"create {self.name}: {self.members} {self.form}, {self.millicores}m each{life}{where}"


@dataclass(frozen=True, slots=True)
class Delete:
    """End a workload, or only its first pod (``one``); ``force`` means without a grace period."""

    name: str
    one: bool = False
    force: bool = False

    def __str__(self) -> str:
        return f"delete {'a pod of ' if self.one else ''}{self.name}{' by force' if self.force else ''}"


class How(StrEnum):
    """The ways to disturb a process."""

    KILL = "SIGKILL"
    STOP = "SIGTERM"
    FREEZE = "SIGSTOP"


class Process(StrEnum):
    """The processes that a disturbance may hit."""

    EXTENDER = "fluence-extender"
    SCHEDULER = "kube-scheduler-fluence"
    OTHER_SCHEDULER = "kube-scheduler"
    API_SERVER = "kube-apiserver"
    ETCD = "etcd"
    MANAGER = "kube-controller-manager"
    KUBELETS = "kubelets"
    REPLICA = "replica"
    """An extender and its kube-scheduler, both at once, as if their pod or its node died."""


class Moment(StrEnum):
    """The moments to wait for before a process is hit."""

    ANY = ""
    PASSED = "once a member may be bound"
    PART = "once a gang is bound in part"


@dataclass(frozen=True, slots=True)
class Hit:
    """Kill, stop or freeze a process, which is back after ``seconds``; ``replica`` counts our replicas from 0.

    With a ``moment`` to wait for, the leader's process is hit, whichever replica that is.
    """

    process: Process
    how: How
    seconds: float
    replica: int = 0
    moment: Moment = Moment.ANY

    def __str__(self) -> str:
        if self.moment:
            return f"{self.how} to the leading {self.process} {self.moment}, back after {self.seconds:g} s"
        return f"{self.how} to {self.process} {self.replica}, back after {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Cut:
    """Cut the connections to the API server, and let no bytes pass for ``seconds`` (0 means that they pass at once)."""

    process: Process
    seconds: float
    replica: int = 0

    def __str__(self) -> str:
        silence = f", and silence for {self.seconds:g} s" if self.seconds else ""
        return f"cut the connections of {self.process} {self.replica}{silence}"


class NodeChange(StrEnum):
    """The changes of nodes; each is undone later."""

    DELETE = "delete"
    LOSE = "lose, with its pods,"
    REPLACE = "delete, and create anew at once,"
    RELABEL = "move to the other pool"
    CORDON = "cordon"
    UNREADY = "make unready"
    SHRINK = "shrink"
    GROW = "grow"
    TAINT = "taint"


@dataclass(frozen=True, slots=True)
class Disturb:
    """Change a node for ``seconds``."""

    node: str
    change: NodeChange
    seconds: float

    def __str__(self) -> str:
        return f"{self.change} {self.node} for {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Edit:
    """Write ``devices`` to resources.yaml; a faulty file stays for ``seconds`` and must change nothing."""

    devices: int
    faulty: bool = False
    seconds: float = 0.0

    def __str__(self) -> str:
        if self.faulty:
            return f"a faulty resources.yaml for {self.seconds:g} s"
        return f"resources.yaml with {self.devices} devices"


@dataclass(frozen=True, slots=True)
class Wipe:
    """Delete the namespace `BRIEF` with everything in it, and create it again as soon as it is gone."""

    def __str__(self) -> str:
        return f"delete the namespace {BRIEF}"


@dataclass(frozen=True, slots=True)
class Ungroup:
    """Delete the PodGroup of the workload ``name``, and create it again after ``seconds``; the pods stay."""

    name: str
    seconds: float

    def __str__(self) -> str:
        return f"delete the PodGroup {self.name} for {self.seconds:g} s"


Accident = Hit | Cut | Disturb | Edit | Wipe | Ungroup
"""The steps that count as a kill or stop, and not as everyday use."""

Deed = Create | Delete | Accident


def kind_of(deed: Accident) -> str:
    """Return the name under which a disturbance is counted."""
    match deed:
        case Hit():
            return " ".join(filter(None, (f"{deed.process}: {deed.how}", deed.moment)))
        case Cut():
            return f"{deed.process}: {'partition' if deed.seconds else 'connections cut'}"
        case Disturb():
            return f"node: {deed.change}"
        case Edit():
            return f"resources.yaml: {'faulty edit' if deed.faulty else 'edit'}"
        case Wipe():
            return "namespace: delete"
        case Ungroup():
            return "PodGroup: delete"
