"""Compose the sidecar: the API server with the pod's account, the vendor by the environment, signals and a log."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping, Sized

import structlog

from fluence_extender.apps.logs import set_up_logging
from fluence_extender.cluster.connection import connect
from fluence_extender.coordination.guarded_queue import GuardedQueue
from fluence_extender.coordination.options import Options
from fluence_extender.coordination.pods import ApiPods
from fluence_extender.coordination.registry import connect_vendor
from fluence_extender.coordination.reports import listen
from fluence_extender.coordination.sidecar import Sidecar

log = structlog.get_logger(__name__)


async def run(options: Options, environ: Mapping[str, str], signals: Sized = ()) -> int:
    """Run until SIGTERM or SIGINT. Return the exit code. Raises `cluster.errors.BadKubeconfig` without an API server.

    ``signals`` are those signals that came before.
    """
    set_up_logging()
    async with connect() as connection:
        pods = ApiPods(connection, options.namespace, options.pod_name, options.pod_uid)
        sidecar = Sidecar(options, pods, GuardedQueue(lambda: connect_vendor(environ), options.call))
        loop = asyncio.get_running_loop()
        for one in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(one, sidecar.stop)
        if signals:
            sidecar.stop()
        try:
            reports = await listen(options.pod_uid, sidecar.reported)
        except OSError as error:
            log.warning("reports can't be received, so tasks are found by search only", problem=str(error))
            return await sidecar.run()
        try:
            return await sidecar.run()
        finally:
            reports.close()
