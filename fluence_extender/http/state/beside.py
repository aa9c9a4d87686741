"""The kube-scheduler beside us, asked how it is.

Its container's liveness probe comes here instead of to itself: so it is ended, and lets go of its Lease, also when we
are gone or hang, and another replica can lead. A container has one liveness probe, hence we pass the question on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import aiohttp

Ask = Callable[[], Awaitable[str]]
"""Says what is wrong with the scheduler, "" when nothing is."""

PATIENCE = aiohttp.ClientTimeout(total=4.0)


def asking(url: str) -> Ask:
    """Asks ``url``, a health endpoint; "" means that there is no scheduler to ask, and nothing is wrong."""

    async def ask() -> str:
        if not url:
            return ""
        try:
            # On loopback inside the pod, with a certificate that the scheduler has signed itself.
            async with (
                aiohttp.ClientSession(timeout=PATIENCE) as session,
                session.get(url, ssl=False) as answer,
            ):
                return "" if answer.status == 200 else f"{url} answers {answer.status}"
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return f"{url} doesn't answer: {str(error) or type(error).__name__}"

    return ask
