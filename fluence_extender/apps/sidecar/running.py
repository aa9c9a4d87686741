"""The sidecar put together: the API server by the pod's account, the vendor by its environment, signals, a log."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping, Sized

import structlog

from fluence_extender.apps.logs import set_up_logging
from fluence_extender.cluster.connection import connect
from fluence_extender.coordination.guarded import Guarded
from fluence_extender.coordination.handoff import listen
from fluence_extender.coordination.options import Options
from fluence_extender.coordination.pods import ApiPods
from fluence_extender.coordination.provider import ProviderError, Queue
from fluence_extender.coordination.registry import attributes_of, known_providers, resolve
from fluence_extender.coordination.sidecar import Sidecar

log = structlog.get_logger(__name__)


async def run(options: Options, environ: Mapping[str, str], told: Sized = ()) -> int:
    """Run until SIGTERM or SIGINT; the exit code. Raises `cluster.errors.BadKubeconfig` without an API server.

    ``told`` are such signals that came before.
    """
    set_up_logging()
    async with connect() as connection:
        pods = ApiPods(connection, options.namespace, options.pod_name, options.pod_uid)
        sidecar = Sidecar(options, pods, Guarded(lambda: connect_vendor(environ), options.call))
        loop = asyncio.get_running_loop()
        for one in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(one, sidecar.stop)
        if told:
            sidecar.stop()
        try:
            reports = await listen(options.pod_uid, sidecar.reported)
        except OSError as error:
            log.warning("tasks are found by search alone: reports can't be received", error=str(error))
            return await sidecar.run()
        try:
            return await sidecar.run()
        finally:
            reports.close()


def connect_vendor(environ: Mapping[str, str]) -> Queue:
    """The queue of the backend that the environment describes. Raises `ProviderError` where nobody knows it."""
    attributes = attributes_of(environ)
    provider = resolve(attributes, known_providers())
    if provider is None:
        told = (
            ", ".join(f"{key}={value}" for key, value in sorted(attributes.items())) or "no attributes at all"
        )
        raise ProviderError(
            f"no provider knows a backend with {told}: give it the attribute provider in resources.yaml, or install "
            "one (entry points fluence_extender.providers)"
        )
    queue = provider.connect(attributes, environ)
    log.info("following tasks", provider=provider.name, backend=attributes.get("backend", ""))
    return queue
