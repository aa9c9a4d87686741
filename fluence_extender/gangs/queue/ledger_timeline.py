"""The timeline of the cluster. Its rows are the ledger's nodes and virtual devices; pods leave at their declared ends.

It follows the ledger node by node and only on request, so it costs nothing while no gang is blocked. Pods of a node
that end at the same time are counted together. A pod that has a place and hasn't started counts as if it started now.

Invariant: apart from reservations, `follow` makes the timeline equal to one that is built anew from the ledger. When it
is built anew, ``built`` grows, and reservations have to be made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from fluence_extender.gangs.queue.device_rows import DEVICES, EXCLUSIVE, FIRST_RESOURCE, DeviceRows
from fluence_extender.gangs.queue.ends import Ends
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import NOTHING, Resources
from fluence_extender.queueing.entry import NEVER, Amounts, Footprint, Running
from fluence_extender.queueing.timeline import Timeline
from fluence_extender.room.capacity import LARGEST
from fluence_extender.room.holdings import NodeAccount
from fluence_extender.room.ledger import Ledger

SPARE = 16
"""The spare rows for nodes that join, in addition to an eighth of the nodes."""

PART, HOLDS = 64, 1024
"""The nodes that each step of the first build looks at, and the holds that it counts."""

Held = dict[tuple[float, bool], Amounts]
"""What the pods of a node hold, by when they end and whether they are foreign."""


class LedgerTimeline:
    """A `Timeline` of ``ledger``.

    ``nodes`` are the present nodes, and ``calendar`` returns seconds since the epoch. ``freed`` grows when something
    may become free earlier than expected. ``rows`` has the row of each node.
    """

    def __init__(
        self, ledger: Ledger, nodes: Mapping[str, Node], ends: Ends, calendar: Callable[[], float]
    ) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._ends = ends
        self._calendar = calendar
        self._ending: dict[str, Pod] = {}
        self._placed: dict[str, float] = {}
        self._touched: set[str] = set()
        self._mark = -1
        self._building: Iterator[bool] | None = None
        self.built = 0
        self.freed = 0
        self.columns: dict[str, int] = {}
        self._clear(0)

    def _clear(self, rows: int) -> None:
        self.timeline = Timeline(
            np.zeros((rows, FIRST_RESOURCE + len(self.columns)), dtype=np.int64), self._calendar()
        )
        self.devices = DeviceRows(self._ledger.graph.catalogue, 0)
        self.rows: dict[str, int] = {}
        self.names: list[str] = []
        self._states: dict[str, tuple[Resources, Node | None]] = {}
        self._held: dict[str, Held] = {}
        self._holders: dict[str, dict[str, Running]] = {}
        self._sizes: dict[Resources, Amounts] = {}

    # What happens.

    def pod_seen(self, pod: Pod) -> None:
        """Take in a pod that is new or has changed, and so may have another end."""
        if not pod.finished and self._ends.has_end(pod):
            if self._ending.get(pod.uid) is not pod:
                self._ending[pod.uid] = pod
                self._touch(pod.uid)
        elif self._ending.pop(pod.uid, None) is not None:
            self._touch(pod.uid)

    def restated(self, pod: Pod) -> None:
        """Take in a pod whose end may have changed because its workload or its queue has."""
        self._ending.pop(pod.uid, None)
        self._touch(pod.uid)
        self.pod_seen(pod)

    def _touch(self, uid: str) -> None:
        """Note that a pod may have another end; a pod without a place holds nothing yet, so it doesn't count."""
        if self._node_of(uid):
            self._touched.add(uid)

    def pod_gone(self, uid: str) -> None:
        """Forget a pod."""
        self._ending.pop(uid, None)
        self._placed.pop(uid, None)

    @property
    def any_ends(self) -> bool:
        """Whether the end of any pod is known."""
        return bool(self._ending)

    # Following.

    @property
    def behind(self) -> bool:
        """Whether the ledger or the end of a pod has changed since the timeline followed them."""
        return bool(self._touched) or self._mark != self._ledger.journal.now

    @property
    def basis(self) -> tuple[int, ...]:
        """A value that changes whenever the ledger or the timeline does, but not with the time."""
        timeline = self.timeline
        return self._ledger.journal.now, len(self._touched), self.built, timeline.revision, timeline.loosened

    def now(self) -> float:
        """Return the present time in seconds since the epoch."""
        return self._calendar()

    def prepare(self) -> bool:
        """Build the next part of the timeline if it has never been built; return whether it is there."""
        if self.built:
            return True
        if self._building is None:
            self._building = self._parts(self._calendar())
        return next(self._building, True)

    def follow(self) -> None:
        """Bring the timeline up to date with the ledger and the time."""
        now = self._calendar()
        changed = self._ledger.journal.since(self._mark) if self._mark >= 0 else None
        if changed is None or self.devices.catalogue is not self._ledger.graph.catalogue:
            self._build(now)
            return
        self._mark = self._ledger.journal.now
        touched, self._touched = self._touched, set()
        if now > self.timeline.now:
            self.timeline.advance(now)
        late = {name for uid in touched if (name := self._node_of(uid))}
        for name in changed | late:
            if not self._update(name):
                self._build(now)
                return

    def _build(self, now: float) -> None:
        """Build the timeline anew."""
        self._building = None
        for _ in self._parts(now):
            pass

    def _parts(self, now: float) -> Iterator[bool]:
        """Build the timeline anew as it is ``now``, and yield False after each part.

        Changes that come meanwhile are taken in by the next `follow`.
        """
        mark, self._touched = self._ledger.journal.now, set()
        accounts, catalogue = self._ledger.accounts, self._ledger.graph.catalogue
        kinds = {
            kind for account in accounts.values() for kind, amount in account.allocatable.items() if amount
        }
        self.columns = {kind: FIRST_RESOURCE + number for number, kind in enumerate(sorted(kinds))}
        spare = SPARE + len(accounts) // 8
        self._clear(0)
        self.devices = DeviceRows(catalogue, len(accounts) + spare)
        room = np.zeros(
            (len(accounts) + spare + len(self.devices), FIRST_RESOURCE + len(self.columns)), dtype=np.int64
        )
        for at, units in self.devices.rows():
            room[at, DEVICES] = units
        holds: list[Running] = []
        for number, (name, account) in enumerate(list(accounts.items()), 1):
            row = self.rows[name] = len(self.names)
            self.names.append(name)
            room[row] = self._room(account)
            self._states[name] = account.allocatable, self._nodes.get(name)
            self._held[name] = self._holds_on(account)
            holds.extend(_running(name, row, key, amounts) for key, amounts in self._held[name].items())
            self._holders[name] = dict(self._device_holds(name, account))
            holds.extend(self._holders[name].values())
            if number % PART == 0:
                yield False
        timeline = Timeline(room, now)
        for first in range(0, len(holds), HOLDS):
            timeline.hold_all(holds[first : first + HOLDS])
            yield False
        timeline.sort_ends()
        yield False
        self.timeline = timeline
        self._mark = mark
        self.built += 1
        self.freed += 1

    def _update(self, name: str) -> bool:
        """Follow the changes of a node; return False where the timeline has to be built anew."""
        account = self._ledger.accounts.get(name)
        if account is None and name not in self.rows:
            return True
        account, row = account or NodeAccount(name), self._row(name)
        if row is None or any(
            kind not in self.columns for kind, amount in account.allocatable.items() if amount
        ):
            return False
        state = account.allocatable, self._nodes.get(name)
        if state != self._states.get(name, (NOTHING, None)):
            room = self._room(account)
            if (room != self.timeline.room[row]).any():
                self.timeline.resize(np.array([row], dtype=np.intp), room[None, :])
            self.freed += 1
            self._states[name] = state
        before, after = self._held.get(name, {}), self._holds_on(account)
        self._held[name] = after
        for key in before.keys() - after.keys():
            self.timeline.release(_key(name, key))
        for key, amounts in after.items():
            if key not in before or (before[key] != amounts).any():
                self.timeline.hold(_running(name, row, key, amounts))
        self.freed += _grows(after, before)
        self._update_devices(name, dict(self._device_holds(name, account)))
        return True

    def _update_devices(self, name: str, after: dict[str, Running]) -> None:
        before = self._holders.get(name, {})
        for uid in before.keys() - after.keys():
            self.timeline.release(before[uid].key)
            self.freed += 1
        for uid, hold in after.items():
            known = before.get(uid)
            if known is None or known.end != hold.end or not _alike(known.places, hold.places):
                self.timeline.hold(hold)
                self.freed += known is not None
        self._holders[name] = after

    # What is held.

    def size(self, requests: Resources) -> Amounts:
        """Return requests as a row; treat it as read-only. Resources that no node has stand in the first column."""
        found = self._sizes.get(requests)
        if found is None:
            found = np.zeros(FIRST_RESOURCE + len(self.columns), dtype=np.int64)
            for kind, amount in requests.items():
                if amount > 0:
                    found[self.columns.get(kind, 0)] += min(amount, LARGEST)
            self._sizes[requests] = found
        return found

    def _holds_on(self, account: NodeAccount) -> Held:
        """Return what the pods of a node hold."""
        found: Held = {}
        ending = self._ending
        foreign = self._signed(account.foreign_use)
        own = self._signed(account.allocatable - account.free) - foreign
        for uid in [uid for uid in account.users if uid in ending]:
            end = self._end(uid)
            if end == NEVER:
                continue
            size = self._use(account.users[uid])
            key = end, uid in self._ledger.foreign
            found[key] = found[key] + size if key in found else size
            (foreign if key[1] else own)[:] -= size
        for rest, is_foreign in ((own, False), (foreign, True)):
            if rest.any():
                found[NEVER, is_foreign] = rest
        if self._ledger.gang_nodes.exclusive:
            for end, gangs in self._gang_ends(account):
                amounts = found.setdefault((end, False), np.zeros_like(own)).copy()
                amounts[EXCLUSIVE] += gangs
                found[end, False] = amounts
        return found

    def _gang_ends(self, account: NodeAccount) -> Iterator[tuple[float, int]]:
        """Yield when gangs leave a node that they use alone, and how many do."""
        last: dict[object, float] = {}
        for uid in account.users:
            gang = self._ledger.gang_nodes.gang_of(uid)
            if gang is not None:
                end = self._end(uid) if uid in self._ending else NEVER
                last[gang] = max(last.get(gang, end), end)
        for end in set(last.values()):
            yield end, sum(1 for one in last.values() if one == end)

    def _device_holds(self, name: str, account: NodeAccount) -> Iterator[tuple[str, Running]]:
        """Yield the pods of the node ``name`` that hold devices, with what they hold."""
        if not len(self.devices):
            return
        for uid in account.users:
            held = self._ledger.holdings.get(uid)
            taken = self.devices.taken(held.assignment.devices) if held is not None else {}
            if taken:
                end = self._end(uid) if uid in self._ending else NEVER
                # A pod that moves may be seen on its new node before it is missed on the old one.
                yield uid, Running(f"{name} devices of {uid}", self.footprint(taken), end)

    def footprint(self, units: Mapping[int, int]) -> Footprint:
        """Return units of devices as a footprint."""
        amounts = np.zeros((len(units), self.timeline.room.shape[1]), dtype=np.int64)
        amounts[:, DEVICES] = list(units.values())
        return Footprint(np.fromiter(units, dtype=np.intp, count=len(units)), amounts)

    def _end(self, uid: str) -> float:
        pod = self._ending[uid]
        if pod.started:
            self._placed.pop(uid, None)
            return self._ends.end(pod, pod.started)
        return self._ends.end(pod, self._placed.setdefault(uid, self._calendar()))

    def _node_of(self, uid: str) -> str:
        held = self._ledger.holdings.get(uid)
        return held.assignment.node if held is not None else self._ledger.foreign.get(uid, "")

    def _row(self, name: str) -> int | None:
        """Return the row of a node, a new one if need be; None if all are taken."""
        row = self.rows.get(name)
        if row is None:
            row = len(self.names)
            if row >= self.timeline.room.shape[0] - len(self.devices):
                return None
            self.rows[name] = row
            self.names.append(name)
        return row

    def _room(self, account: NodeAccount) -> Amounts:
        found = self._use(account.allocatable).copy()
        found[EXCLUSIVE] = self._ledger.gang_nodes.exclusive
        return found

    def _use(self, amounts: Resources) -> Amounts:
        """Return amounts as a row, without resources that no node has."""
        found = self.size(amounts)
        if found[0]:
            found = found.copy()
            found[0] = 0
        return found

    def _signed(self, amounts: Resources) -> Amounts:
        """Return amounts, which may be negative, as a new row without resources that no node has."""
        found = np.zeros(FIRST_RESOURCE + len(self.columns), dtype=np.int64)
        for kind, amount in amounts.items():
            if kind in self.columns:
                found[self.columns[kind]] = min(max(amount, -LARGEST), LARGEST)
        return found


def _key(name: str, key: tuple[float, bool]) -> str:
    return f"{name} {key[0]!r} {key[1]}"


def _running(name: str, row: int, key: tuple[float, bool], amounts: Amounts) -> Running:
    places = Footprint(np.array([row], dtype=np.intp), amounts[None, :])
    return Running(_key(name, key), places, key[0], foreign=key[1])


def _alike(one: Footprint, other: Footprint) -> bool:
    return np.array_equal(one.rows, other.rows) and np.array_equal(one.amounts, other.amounts)


def _grows(before: Held, after: Held) -> bool:
    """Return whether pods hold more at some time ``after`` than ``before``."""
    ends = sorted({end for end, _ in (*before, *after)}, reverse=True)
    more: Amounts | int = 0
    for end in ends:
        for held, sign in ((after, 1), (before, -1)):
            for foreign in (True, False):
                amounts = held.get((end, foreign))
                if amounts is not None:
                    more = more + sign * amounts
        if np.any(np.asarray(more) > 0):
            return True
    return False
