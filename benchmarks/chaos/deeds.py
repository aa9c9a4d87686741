"""What can be done to a cluster, as plain values: workloads, their ends, and disturbances.

A script is a pure function of its seed (see `script`); nothing here knows of a real cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Form(StrEnum):
    """How a workload is written."""

    LABELLED = "labelled pods"
    MIXED = "labelled pods of two shapes"
    NATIVE = "pods of a native PodGroup"
    JOB = "indexed Job"
    QUANTUM = "labelled pods with a device each"
    FOREIGN = "pods of default-scheduler"


OURS = tuple(form for form in Form if form is not Form.FOREIGN)


@dataclass(frozen=True, slots=True)
class Create:
    """A workload of ``members`` pods with ``millicores`` each that run for ``seconds`` (for ever when 0).

    In a mixed one every second member asks for twice as much.
    """

    name: str
    form: Form
    members: int
    millicores: int
    seconds: int = 0

    def __str__(self) -> str:
        life = f" for {self.seconds} s" if self.seconds else ""
        return f"create {self.name}: {self.members} {self.form}, {self.millicores}m each{life}"


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


@dataclass(frozen=True, slots=True)
class Hit:
    """A process is killed, stopped or frozen and back after ``seconds``; ``replica`` counts ours from 0."""

    process: Process
    how: How
    seconds: float
    replica: int = 0

    def __str__(self) -> str:
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


Accident = Hit | Cut | Disturb | Edit
"""What counts as a kill or stop, rather than as everyday use."""

Deed = Create | Delete | Accident


def kind_of(deed: Accident) -> str:
    """Under which name a disturbance is counted."""
    match deed:
        case Hit():
            return f"{deed.process}: {deed.how}"
        case Cut():
            return f"{deed.process}: {'partition' if deed.seconds else 'connections cut'}"
        case Disturb():
            return f"node: {deed.change}"
        case Edit():
            return f"resources.yaml: {'faulty edit' if deed.faulty else 'edit'}"
