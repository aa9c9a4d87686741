"""Binding pods: direct ones when their gang has its places, others once their whole gang has reached bind.

A failed Binding is retried here, because a gang that has begun to bind has to be completed. A Binding without an answer
may have taken effect. So the member keeps its place until the API server or the watch shows whether the pod is bound,
or until it is too late for the Binding to take effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count

from fluence_extender.cluster.errors import AlreadyBound, ClusterError, Gone, NoAnswer, NotLeading
from fluence_extender.gangs.execution.barrier import BarrierFailed
from fluence_extender.gangs.execution.writes import FairSlots, Fence
from fluence_extender.gangs.lifecycle.lifecycle import Lifecycle
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.model.assignment import binding_annotations
from fluence_extender.model.gang import HistoryKind
from fluence_extender.model.pod import Pod

BIND_TRIES = 5
BIND_PAUSE = 0.25
"""Seconds before a retry, times the number of tries: an API server that has just started may refuse allowed writes."""

BIND_LIMIT = 8.0
"""Seconds for all tries. With the 20 at the barrier, they end before kube-scheduler's httpTimeout of 30."""

BINDINGS_AT_ONCE = 32
"""The most Bindings under way at the same time.

Each has a connection of its own, whose TLS handshake costs as much as several Bindings.
"""

BYTES_A_SECOND = 8_000_000
"""The pace of one namespace. A gang of large pods is bound all at once, and has `BIND_LIMIT` seconds for that."""

ASK_AGAIN = 1.0
"""Seconds from a Binding without an answer to the next try to bind the direct member."""

UNCLEAR_FOR = 60.0
"""Seconds after which a Binding without an answer can't take effect: the API server has ended the request by then."""


class CannotBind(Exception):
    """The pod can't be bound there now; the text says why.

    ``unclear``: it may be bound all the same. ``definite``: another try can't succeed.
    """

    def __init__(self, text: str, *, unclear: bool = False, definite: bool = False) -> None:
        super().__init__(text)
        self.unclear = unclear
        self.definite = definite


class Binder:
    """Binds pods to their planned nodes; ``wake`` has the next decision made at once."""

    def __init__(
        self,
        registry: Registry,
        lifecycle: Lifecycle,
        fence: Fence,
        leading: Callable[[], bool],
        wake: Callable[[], None],
    ) -> None:
        self._registry = registry
        self._lifecycle = lifecycle
        self._fence = fence
        self._leading = leading
        self._wake = wake
        self._bindings = FairSlots(BINDINGS_AT_ONCE, BYTES_A_SECOND)
        self._unclear: dict[str, asyncio.TimerHandle] = {}
        """By pod, the timers of Bindings without an answer. After its timer, such a Binding can't take effect."""
        self._under_way: set[str] = set()
        """The pods for which the bind verb is writing a Binding."""

    async def bind(self, uid: str, node: str) -> None:
        """Bind a pod to its planned node once its whole gang has reached bind. Idempotent. Raises `CannotBind`."""
        gang, member = self._checked(uid, node)
        if member.bound == node:
            return
        if not gang.begun:
            try:
                await gang.barrier.arrive(uid, node, gang.gathered, self._lifecycle.limits.bind_wait)
            except BarrierFailed as failed:
                self._lifecycle.note(uid, HistoryKind.FAILED, f"binding to {node}: {failed}")
                self._lifecycle.not_bound(uid)
                raise CannotBind(f"gang {gang.key} is not bound: {failed}") from failed
            self._wake()
            gang, member = self._checked(uid, node)
            if member.bound == node:
                return
        self._lifecycle.binding(gang, member)
        self._under_way.add(uid)
        try:
            await self._bind(gang, member, node)
        except BaseException as error:
            self._give_up(uid, node, error)
            raise
        finally:
            self._under_way.discard(uid)
        self._lifecycle.bound(uid, node)
        self._wake()

    async def bind_direct(self, uid: str, node: str) -> None:
        """Bind a direct pod whose Binding the lifecycle has noted. Raises `CannotBind` if it has failed.

        Do nothing if that Binding has ended meanwhile.
        """
        clear_at = 0.0
        try:
            for attempt in count(1):
                failed = await self._attempt(uid, node)
                if failed is None:
                    return
                now = asyncio.get_running_loop().time()
                if failed.unclear:
                    clear_at = now + UNCLEAR_FOR
                elif failed.definite or now >= clear_at:
                    if failed.definite or attempt >= BIND_TRIES or not self._lifecycle.may_bind(uid, node):
                        raise failed
                    await asyncio.sleep(BIND_PAUSE * attempt)
                    continue
                self._lifecycle.binding_unclear(uid, str(failed))
                await asyncio.sleep(ASK_AGAIN)
        except BaseException as error:
            self._give_up(uid, node, error)
            raise

    async def _attempt(self, uid: str, node: str) -> CannotBind | None:
        """Write the Binding of a direct pod once, unless it has ended meanwhile; return why it failed, if it did."""
        _, member = self._registry.member(uid) or (None, None)
        if member is None:
            return None
        async with self._bindings.taken(member.pod.namespace, member.pod.size):
            # The wait for a slot may have been long.
            gang, member = self._registry.member(uid) or (None, None)
            if gang is None or member is None or not _is_under_way(member, node):
                return None
            pod = member.pod
            if not self._lifecycle.may_bind(uid, node):
                return CannotBind(f"node {node} has gone, or doesn't take pod {pod.key} any more")
            annotations = self._annotations(gang, member)
            try:
                async with asyncio.timeout(BIND_LIMIT):
                    await self._fence.write(lambda cluster: cluster.bind(pod, node, annotations))
            except (NotLeading, Gone, AlreadyBound) as error:
                return CannotBind(str(error), definite=True)
            except TimeoutError:
                why = f"the API server gave no answer within {BIND_LIMIT:g} s"
                return CannotBind(f"pod {pod.key} is not bound to {node}: {why}", unclear=True)
            except ClusterError as error:
                return CannotBind(str(error), unclear=isinstance(error, NoAnswer))
        self._lifecycle.bound(uid, node)
        return None

    def _give_up(self, uid: str, node: str, error: BaseException) -> None:
        """Record that a Binding has failed, and why if it wasn't cancelled."""
        why = str(error) if isinstance(error, CannotBind) else ""
        if why:
            self._lifecycle.note(uid, HistoryKind.FAILED, f"binding to {node}: {why}")
        if isinstance(error, asyncio.CancelledError) or (isinstance(error, CannotBind) and error.unclear):
            self._lifecycle.binding_unclear(uid, why)
            earlier = self._unclear.get(uid)
            if earlier is not None:
                earlier.cancel()
            loop = asyncio.get_running_loop()
            self._unclear[uid] = loop.call_later(UNCLEAR_FOR, self._end_unclear, uid, why)
        elif uid not in self._unclear:
            self._lifecycle.not_bound(uid, why)

    def _end_unclear(self, uid: str, why: str) -> None:
        """Record that it is too late for a Binding without an answer to take effect."""
        del self._unclear[uid]
        if uid not in self._under_way:
            self._lifecycle.not_bound(uid, why)
            self._wake()

    def _checked(self, uid: str, node: str) -> tuple[Gang, Member]:
        """Return the gang and the member if the pod may be bound there now. Raises `CannotBind`."""
        if not self._leading():
            raise CannotBind(self._fence.why_not_leading)
        found = self._registry.member(uid)
        if found is None:
            raise CannotBind("the pod is not known here: it may have been deleted")
        gang, member = found
        if member.bound and member.bound != node:
            raise CannotBind(f"the pod is bound to {member.bound} already")
        if not member.bound and (member.assignment is None or member.assignment.node != node):
            self._lifecycle.not_bound(uid)
            planned = member.assignment.node if member.assignment is not None else "no node"
            raise CannotBind(f"the plan has changed: the pod now goes to {planned}, not to {node}")
        return gang, member

    def _annotations(self, gang: Gang, member: Member) -> dict[str, str]:
        """Return what the Binding of a member records."""
        assert member.assignment is not None
        record = self._registry.seal.on_pod(member.pod, str(member.record or ""))
        return binding_annotations(gang.key, member.assignment, member.pod.annotations, record)

    async def _bind(self, gang: Gang, member: Member, node: str) -> None:
        annotations = self._annotations(gang, member)
        try:
            async with asyncio.timeout(BIND_LIMIT):
                await self._bind_with_retries(member.pod, node, annotations)
        except TimeoutError:
            why = f"the API server gave no answer within {BIND_LIMIT:g} s"
            raise CannotBind(f"pod {member.pod.key} is not bound to {node}: {why}", unclear=True) from None

    async def _bind_with_retries(self, pod: Pod, node: str, annotations: dict[str, str]) -> None:
        unclear = False
        for attempt in range(1, BIND_TRIES + 1):
            try:
                async with self._bindings.taken(pod.namespace, pod.size):
                    await self._fence.write(lambda cluster: cluster.bind(pod, node, annotations))
                return
            except (NotLeading, Gone, AlreadyBound) as error:
                raise CannotBind(str(error)) from error
            except ClusterError as error:
                unclear = unclear or isinstance(error, NoAnswer)
                if attempt == BIND_TRIES:
                    raise CannotBind(str(error), unclear=unclear) from error
                await asyncio.sleep(BIND_PAUSE * attempt)
            if not self._lifecycle.may_bind(pod.uid, node):
                why = f"node {node} has gone, or doesn't take pod {pod.key} any more"
                raise CannotBind(why, unclear=unclear)


def _is_under_way(member: Member, node: str) -> bool:
    """Return whether a Binding of the member to ``node`` is under way."""
    return member.binding and member.assignment is not None and member.assignment.node == node
