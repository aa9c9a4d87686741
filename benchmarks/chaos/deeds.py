"""What can be done to a cluster, as plain values: workloads, their ends, and disturbances.

A script is a pure function of its seed (see `script`); nothing here knows of a real cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

LASTING, BRIEF = NAMESPACES = ("chaos", "chaos-brief")
"""The namespaces of workloads; the second one may be deleted with all that is in it."""


class Form(StrEnum):
    """How a workload is written."""

    LABELLED = "labelled pods"
    MIXED = "labelled pods of two shapes"
    NATIVE = "pods of a native PodGroup"
    JOB = "indexed Job"
    POOL = "labelled pods of one pool of nodes"
    PACKED = "pods of a native PodGroup that share a pool of nodes"
    QUANTUM = "labelled pods with a device each"
    FOREIGN = "pods of default-scheduler"


GROUPED = (Form.NATIVE, Form.PACKED)
"""Those with a PodGroup."""

OURS = tuple(form for form in Form if form is not Form.FOREIGN)


@dataclass(frozen=True, slots=True)
class Create:
    """A workload of ``members`` pods with ``millicores`` each that run for ``seconds`` (for ever when 0).

    In a mixed one every second member asks for twice as much. Those of one pool name ``pool``.
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
    """The end of a workload, or of its first pod only (``one``); ``force`` leaves no grace."""

    name: str
    one: bool = False
    force: bool = False

    def __str__(self) -> str:
        return f"delete {'a pod of ' if self.one else ''}{self.name}{' by force' if self.force else ''}"


class How(StrEnum):
    """How a process is disturbed."""

    KILL = "SIGKILL"
    STOP = "SIGTERM"
    FREEZE = "SIGSTOP"


class Process(StrEnum):
    """Whom a disturbance may hit."""

    EXTENDER = "fluence-extender"
    SCHEDULER = "kube-scheduler-fluence"
    OTHER_SCHEDULER = "kube-scheduler"
    API_SERVER = "kube-apiserver"
    ETCD = "etcd"
    MANAGER = "kube-controller-manager"
    KWOK = "kwok"
    REPLICA = "replica"
    """An extender and its kube-scheduler at once, as when their pod or its node dies."""


class Moment(StrEnum):
    """What is awaited before a process is hit."""

    ANY = ""
    PASSED = "once a member may be bound"
    PART = "once a gang is bound in part"


@dataclass(frozen=True, slots=True)
class Hit:
    """A process is killed, stopped or frozen and back after ``seconds``; ``replica`` counts ours from 0.

    At a ``moment`` that is awaited it is the leader's, whichever that is.
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
    """Connections to the API server are cut, and for ``seconds`` no bytes pass (none when 0)."""

    process: Process
    seconds: float
    replica: int = 0

    def __str__(self) -> str:
        silence = f", and silence for {self.seconds:g} s" if self.seconds else ""
        return f"cut the connections of {self.process} {self.replica}{silence}"


class NodeChange(StrEnum):
    """What happens to a node; each is undone later."""

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
    """A node changes for ``seconds``."""

    node: str
    change: NodeChange
    seconds: float

    def __str__(self) -> str:
        return f"{self.change} {self.node} for {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Edit:
    """resources.yaml names ``devices`` from now on; a faulty one stands for ``seconds`` and must change nothing."""

    devices: int
    faulty: bool = False
    seconds: float = 0.0

    def __str__(self) -> str:
        if self.faulty:
            return f"a faulty resources.yaml for {self.seconds:g} s"
        return f"resources.yaml with {self.devices} devices"


@dataclass(frozen=True, slots=True)
class Wipe:
    """The namespace `BRIEF` is deleted with all that is in it, and created anew as soon as it is gone."""

    def __str__(self) -> str:
        return f"delete the namespace {BRIEF}"


@dataclass(frozen=True, slots=True)
class Ungroup:
    """The PodGroup of the workload ``name`` is deleted, and created anew after ``seconds``; the pods stay."""

    name: str
    seconds: float

    def __str__(self) -> str:
        return f"delete the PodGroup {self.name} for {self.seconds:g} s"


Accident = Hit | Cut | Disturb | Edit | Wipe | Ungroup
"""What counts as a kill or stop, rather than as everyday use."""

Deed = Create | Delete | Accident


def kind_of(deed: Accident) -> str:
    """Under which name a disturbance is counted."""
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
