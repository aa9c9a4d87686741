"""Bindings under way outlive the calls that started them, and all end."""

from __future__ import annotations

import asyncio

import pytest

from fluence_extender.http.scheduler.pending import CANCELLED, STOPPING, PendingBinds
from fluence_extender.http.scheduler.port import BindRefused


@pytest.fixture
def pending() -> PendingBinds:
    return PendingBinds()


async def test_a_binding_outlives_the_call_that_began_it(pending: PendingBinds) -> None:
    release, ended = asyncio.Event(), asyncio.Event()

    async def binding() -> None:
        await release.wait()
        ended.set()

    call = asyncio.create_task(pending.run(binding()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert len(pending) == 1
    release.set()
    await ended.wait()
    await asyncio.sleep(0)
    assert len(pending) == 0


async def test_thousands_of_bindings_wait_at_once_and_all_end(pending: PendingBinds) -> None:
    barrier = asyncio.Event()
    bound: list[int] = []

    async def binding(number: int) -> None:
        await barrier.wait()
        bound.append(number)

    calls = [asyncio.create_task(pending.run(binding(number))) for number in range(5000)]
    while len(pending) < 5000:  # noqa: ASYNC110
        await asyncio.sleep(0)
    barrier.set()
    await asyncio.gather(*calls)
    assert sorted(bound) == list(range(5000))
    assert len(pending) == 0


async def test_at_the_stop_a_binding_in_time_succeeds_and_the_others_get_an_error(
    pending: PendingBinds,
) -> None:
    async def quick() -> None:
        await asyncio.sleep(0.001)

    async def endless() -> None:
        await asyncio.Event().wait()

    waiting = asyncio.create_task(pending.run(endless()))
    ending = asyncio.create_task(pending.run(quick()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await pending.stop(grace=0.2)
    await ending
    with pytest.raises(BindRefused, match=STOPPING):
        await waiting
    with pytest.raises(BindRefused, match=STOPPING):
        await pending.run(quick())


async def test_a_binding_that_cancels_itself_is_refused(pending: PendingBinds) -> None:
    async def binding() -> None:
        raise asyncio.CancelledError

    with pytest.raises(BindRefused, match=CANCELLED):
        await pending.run(binding())
