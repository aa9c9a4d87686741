"""A service that answers ``/v1`` as a large cluster would: 5,000 nodes and 10,000 gangs in line, of which some change.

It is a process of its own, so that what it costs isn't counted as the dashboard's. Documents are made once for each
change and answered from memory.

    python -m benchmarks.dashboard.service
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
from aiohttp import web

from tests.network.state_api import device, entry, gang, node, queue, story

NODES = 5_000
WAITING = 10_000
RUNNING = 1_000
CHANGED = 20
"""Gangs that change each second."""

RACK, ZONE = 50, 1_000
CHANGED_AT = "changed at "
"""What stands before the time of the newest change, by the clock of this machine, in each queue."""

QUEUES = ("chemistry", "physics", "biology", "astronomy")
SECOND = 1.0


class LargeCluster:
    """The lists of ``/v1``, which change each second while ``busy``."""

    def __init__(self) -> None:
        self.busy = True
        self._revision = 0
        self._bodies: dict[str, bytes] = {}
        self._waiting = [
            gang(
                f"wait-{number}",
                namespace=f"team-{number % 40}",
                queue=QUEUES[number % 4],
                position=number + 1,
            )
            for number in range(WAITING)
        ]
        self._running = [
            gang(f"run-{number}", "bound", namespace=f"team-{number % 40}", queue=QUEUES[number % 4])
            for number in range(RUNNING)
        ]
        self._nodes = [
            node(
                f"n{number}",
                float(number % 5),
                levels={"zone": f"z{number // ZONE}", "rack": f"r{number // RACK}"},
            )
            for number in range(NODES)
        ]
        self._publish()

    def change(self) -> None:
        """Let some gangs change."""
        self._revision += 1
        at = self._revision * CHANGED
        for number in range(at, at + CHANGED):
            one = self._waiting[number % WAITING]
            one["reason"] = f"busy: {number % 4} of 4 fit now, short of cpu"
            one["why"] = "Busy" if self._revision % 2 else "Topology"
        self._publish()

    def answer(self, path: str, given: str) -> web.Response:
        """Return the answer to a request with this ``If-None-Match``."""
        tag = f'"{self._revision}"'
        if path in self._bodies:
            if tag in given.split(", "):
                return web.Response(status=304, headers={"ETag": tag})
            return web.Response(
                body=self._bodies[path], headers={"ETag": tag}, content_type="application/json"
            )
        if path.startswith("/v1/gangs/"):
            found = next(one for one in self._waiting if path.endswith(f"/{one['name']}"))
            return web.json_response(story(found))
        if path.startswith("/v1/nodes/"):
            return web.json_response({**self._nodes[7], "pods": [], "hidden": 0, "leading": True})
        return web.json_response({"message": "nothing"}, status=404)

    def _publish(self) -> None:
        lists: dict[str, list[dict[str, Any]]] = {
            "gangs": [*self._running, *self._waiting],
            "queues": [
                queue(name, waiting=WAITING // 4, problems=[f"{CHANGED_AT}{time.monotonic():.3f}"])
                for name in QUEUES
            ],
            "queue": [entry(one) for one in self._waiting],
            "reservations": [],
            "nodes": self._nodes,
            "backends": [device(f"qpu-{number}") for number in range(20)],
        }
        metadata = {"leading": True}
        self._bodies = {
            f"/v1/{name}": msgspec.json.encode({"items": items, "metadata": metadata})
            for name, items in lists.items()
            if name != "nodes" or f"/v1/{name}" not in self._bodies
        } | {path: body for path, body in self._bodies.items() if path == "/v1/nodes"}


async def serve() -> None:
    """Serve until the end, and print the port.

    A POST to /still or /busy stops or starts the changes, and one to /once makes one.
    """
    cluster = LargeCluster()

    async def read(request: web.Request) -> web.Response:
        return cluster.answer(request.path, request.headers.get("If-None-Match", ""))

    async def turn(request: web.Request) -> web.Response:
        if request.path == "/once":
            cluster.change()
        else:
            cluster.busy = request.path == "/busy"
        return web.Response()

    app = web.Application()
    app.router.add_get("/v1/{rest:.*}", read)
    app.router.add_post("/{name:still|busy|once}", turn)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    while True:
        await asyncio.sleep(SECOND)
        if cluster.busy:
            cluster.change()


if __name__ == "__main__":
    asyncio.run(serve())
