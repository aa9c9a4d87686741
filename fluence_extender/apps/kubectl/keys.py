"""``kubectl fluence explain``: every label, annotation, gate and resource name of ours, and what it does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fluence_extender.apps.kubectl.errors import CommandError
from fluence_extender.apps.kubectl.quantum_keys import ROWS
from fluence_extender.apps.kubectl.question import read_question
from fluence_extender.apps.kubectl.tables import Column, answer
from fluence_extender.model import names


@dataclass(frozen=True, slots=True)
class Explained:
    """One key: what it is, where it stands, who writes it, what it does, and an example."""

    key: str
    kind: str
    on: str
    by: str
    text: str
    example: str

    @property
    def short(self) -> str:
        """The key without its domain."""
        return self.key.partition("/")[2].rstrip("*") or self.key


USER, SERVICE, PLUGIN, POLICY = "you", "the service", "kubectl fluence", "the admission policy"

KEYS = (
    Explained(
        names.GROUP_LABEL,
        "label",
        "pod",
        USER,
        "Makes the pod a member of the gang of that name in its namespace: its members are placed together or not at"
        " all.",
        f"{names.GROUP_LABEL}: training",
    ),
    Explained(
        names.GROUP_SIZE_ANNOTATION,
        "annotation",
        "pod",
        USER,
        "How many members make the gang whole. Without it: what the pods' owner says (a Job its parallelism),"
        " else 1. All members have to say the same.",
        f'{names.GROUP_SIZE_ANNOTATION}: "8"',
    ),
    Explained(
        names.SCHEDULE_TIMEOUT_ANNOTATION,
        "annotation",
        "pod",
        USER,
        "How long the gang may take to be complete before that is given up and told as its reason: seconds, or 90s,"
        " 15m, 1h30m.",
        f"{names.SCHEDULE_TIMEOUT_ANNOTATION}: 10m",
    ),
    Explained(
        names.DURATION_ANNOTATION,
        "annotation",
        "pod",
        USER,
        "How long the pod will run, so that who waits for its room can be told when to expect it.",
        f"{names.DURATION_ANNOTATION}: 90m",
    ),
    Explained(
        names.TOPOLOGY_REQUIRED_ANNOTATION,
        "annotation",
        "pod",
        USER,
        "The level of the topology that all members have to share one of, such as zone or rack: they wait until"
        " there is one with room for all.",
        f"{names.TOPOLOGY_REQUIRED_ANNOTATION}: rack",
    ),
    Explained(
        names.TOPOLOGY_PREFERRED_ANNOTATION,
        "annotation",
        "pod",
        USER,
        "The level of the topology that the members should share one of, where there is one with room.",
        f"{names.TOPOLOGY_PREFERRED_ANNOTATION}: zone",
    ),
    Explained(
        f"{names.REQUIRE_PREFIX}*",
        "annotation",
        "pod",
        USER,
        "What an attribute of the pod's backend must be: require-vendor: ibm takes backends whose vendor is ibm only."
        " Several must all hold.",
        f"{names.REQUIRE_PREFIX}vendor: ibm",
    ),
    Explained(
        names.REQUIRE_BACKEND_ANNOTATION,
        "annotation",
        "pod",
        f"{USER} or {PLUGIN}",
        "The name of the backend that the pod must get. kubectl fluence apply writes it where a select-policy asks.",
        f"{names.REQUIRE_BACKEND_ANNOTATION}: ibm_fez",
    ),
    Explained(
        names.SELECT_POLICY_ANNOTATION,
        "annotation",
        "object or pod template",
        USER,
        "How kubectl fluence chooses the backend before the object is submitted: steps from left to right, min-ATTR,"
        " max-ATTR, require:min_ATTR=N, require:max_ATTR=N, require:ATTR=VALUE, online-only, prefer:NAME.",
        f"{names.SELECT_POLICY_ANNOTATION}: require:min_qubits=20,min-cost",
    ),
    Explained(
        names.SELECT_CANDIDATES_ANNOTATION,
        "annotation",
        "object or pod template",
        USER,
        "The names that kubectl fluence may choose from, separated by commas.",
        f"{names.SELECT_CANDIDATES_ANNOTATION}: ibm_fez,sv1",
    ),
    Explained(
        names.SELECT_CONSTRAINTS_ANNOTATION,
        "annotation",
        "object or pod template",
        USER,
        "Requirements that come before the policy: min_ATTR=N, max_ATTR=N, ATTR=VALUE, separated by commas.",
        f"{names.SELECT_CONSTRAINTS_ANNOTATION}: max_cost=1.50",
    ),
    Explained(
        names.SELECT_SHOTS_ANNOTATION,
        "annotation",
        "object or pod template",
        USER,
        "The shots that a task is priced for; else N_SHOTS of a container, else 1000.",
        f'{names.SELECT_SHOTS_ANNOTATION}: "4000"',
    ),
    Explained(
        names.SELECT_RESULT_ANNOTATION,
        "annotation",
        "object or pod template",
        PLUGIN,
        "What was chosen, when, from which candidates, and why not the others, as JSON of at most 16 KiB.",
        f'{names.SELECT_RESULT_ANNOTATION}: \'{{"chosen":"sv1",...}}\'',
    ),
    Explained(
        names.GATE,
        "scheduling gate",
        "pod",
        POLICY,
        "Holds the pod back until its whole gang has a place; the service removes it then. You never write it.",
        f"schedulingGates: [{{name: {names.GATE}}}]",
    ),
    Explained(
        names.MARK_RESOURCE,
        "request",
        "first container of a pod",
        POLICY,
        "Has the service bind the pod, with its gang and what its devices are, rather than kube-scheduler. No node has"
        " to have it. You never write it.",
        f'{names.MARK_RESOURCE}: "1"',
    ),
    Explained(
        names.BACKEND_ANNOTATION,
        "annotation",
        "pod",
        SERVICE,
        "The backend that serves the pod, written when it is bound. To ask for one, use require-backend.",
        f"{names.BACKEND_ANNOTATION}: ibm_fez",
    ),
    Explained(
        names.PINNED_ANNOTATION,
        "annotation",
        "pod",
        SERVICE,
        "The node that a pod with a controller was planned on when its gate went; its node affinity names that node and"
        " a few spare ones. Should it find room on none of them, it is evicted, and its successor is planned anew.",
        f"{names.PINNED_ANNOTATION}: node-7",
    ),
    Explained(
        f"{names.ATTRIBUTE_PREFIX}*",
        "annotation",
        "pod",
        SERVICE,
        "The attributes of that backend, written when the pod is bound.",
        f"{names.ATTRIBUTE_PREFIX}vendor: ibm",
    ),
    Explained(
        names.ALLOCATION_ANNOTATION,
        "annotation",
        "pod",
        SERVICE,
        "What the pod was given: its gang, its node and its devices, as JSON. After a restart it says which devices"
        " are whose, as far as they are free and match.",
        f'{names.ALLOCATION_ANNOTATION}: \'{{"gang":"default/vqe",...}}\'',
    ),
    Explained(
        f"{names.RESOURCE_PREFIX}*",
        "resource",
        "container requests and limits",
        USER,
        "So many virtual resources of a type that resources.yaml declares.",
        f'{names.RESOURCE_PREFIX}qpu: "1"',
    ),
    *(Explained(*row) for row in ROWS),
)


def explain(words: Sequence[str]) -> int:
    """``kubectl fluence explain [KEY]``."""
    question = read_question("explain", words, most=1)
    if question is None:
        return 0
    items = [_item(one) for one in KEYS]
    if not question.words:
        answer(question, "key", items, COLUMNS, "")
        return 0
    found = look_up(question.words[0])
    if question.output:
        answer(question, "key", [_item(found)], COLUMNS, "")
        return 0
    print(f"{found.key}\n")
    print(f"  {found.kind} on {found.on}, written by {found.by}\n")
    import textwrap

    print(textwrap.fill(found.text, 100, initial_indent="  ", subsequent_indent="  "))
    print(f"\n  {found.example}")
    return 0


def look_up(text: str) -> Explained:
    """The key that is meant, in full or without its domain. Raises `CommandError`."""
    wanted = text.strip().rstrip(":")
    for one in KEYS:
        if wanted in (one.key, one.short):
            return one
    for one in KEYS:
        if one.key.endswith("*") and (
            wanted.startswith(one.key[:-1])
            or (one.short and "/" not in wanted and wanted.startswith(one.short))
        ):
            return one
    from difflib import get_close_matches

    close = get_close_matches(wanted.rpartition("/")[2], [one.short for one in KEYS], n=1)
    hint = f'; did you mean "{close[0]}"?' if close else "; kubectl fluence explain lists all"
    raise CommandError(f'"{text}" is no key of ours{hint}')


def _item(one: Explained) -> dict[str, str]:
    return {
        "name": one.key,
        "kind": one.kind,
        "on": one.on,
        "by": one.by,
        "text": one.text,
        "example": one.example,
    }


COLUMNS = (
    Column("KEY", lambda one: str(one["name"])),
    Column("KIND", lambda one: str(one["kind"])),
    Column("ON", lambda one: str(one["on"])),
    Column("WRITTEN BY", lambda one: str(one["by"])),
    Column("EXAMPLE", lambda one: str(one["example"]), wide=True),
)
