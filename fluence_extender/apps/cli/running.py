"""Running a server from the command line: what it says for itself when it can't start is one line, not a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from typing import Any

import click


def run_server(serving: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run what ``serving`` makes until it ends. Raises `click.ClickException` where it refuses to start."""
    import uvloop

    try:
        uvloop.run(serving())
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if isinstance(error, _refusals()):
            raise click.ClickException(str(error)) from None
        raise


def _refusals() -> tuple[type[Exception], ...]:
    """What a server says for itself when it can't start."""
    from fluence_extender.apps.extender.first_lists import StartRefused
    from fluence_extender.cluster.errors import BadKubeconfig, ResourcesFileError
    from fluence_extender.http.listeners.serving import CannotListen
    from fluence_extender.matcher.errors import EngineUnavailable

    return StartRefused, BadKubeconfig, ResourcesFileError, CannotListen, EngineUnavailable
