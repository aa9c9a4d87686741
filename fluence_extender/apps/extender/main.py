"""The start of the extender: the cluster is listed while most of the program is still being imported."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from fluence_extender.apps.processes import check_resources, log_unhandled
from fluence_extender.apps.settings import Settings
from fluence_extender.cluster.connection import connect
from fluence_extender.cluster.early_watch import EarlyWatch

if TYPE_CHECKING:
    from fluence_extender.apps.extender.engines import Engine
    from fluence_extender.http.server import Listeners


log = structlog.get_logger(__name__)


async def serve(settings: Settings, listening: Callable[[Listeners, Engine], None]) -> None:
    """Run the service until SIGTERM or SIGINT. Raise `StartRefused` and what `app.run` raises."""
    if settings.resources is not None:
        check_resources(settings.resources)
    asyncio.get_running_loop().set_exception_handler(log_unhandled)
    place = settings.resources or settings.resources_namespace
    async with connect(settings.kubeconfig) as connection, EarlyWatch(connection, place).running() as watch:
        log.info("listing the cluster", server=connection.server)
        app = await asyncio.to_thread(importlib.import_module, "fluence_extender.apps.extender.app")
        await app.run_until_signal(settings, watch, listening)
