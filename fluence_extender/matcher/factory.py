"""Choosing the engine of a matcher."""

from __future__ import annotations

from typing import Literal

from fluence_extender.matcher.errors import EngineUnavailable
from fluence_extender.matcher.port import Jgf, Matcher, MatcherOptions

Engine = Literal["auto", "embedded", "fluxion"]

_logged: set[str] = set()


def create_matcher(
    engine: Engine, graph: Jgf | str | bytes, options: MatcherOptions | None = None
) -> Matcher:
    """Load ``graph`` into a new matcher.

    ``fluxion`` is libreapi_cli, ``embedded`` needs no native library, ``auto`` is libreapi_cli if it is found. Raises
    `EngineUnavailable` (``fluxion`` only), `InvalidGraph`, `InvalidOptions`.
    """
    options = options or MatcherOptions()
    if engine == "embedded":
        return _create_embedded(graph, options)
    if engine not in ("auto", "fluxion"):
        raise ValueError(f"unknown engine {engine!r}: auto, embedded or fluxion")
    # Imported here: the adapter looks for its native library, which the embedded engine doesn't need.
    from fluence_extender.matcher.fluxion import create_fluxion_matcher

    try:
        return create_fluxion_matcher(graph, options)
    except EngineUnavailable as error:
        if engine == "fluxion":
            raise
        _log_once(str(error))
        return _create_embedded(graph, options)


def _create_embedded(graph: Jgf | str | bytes, options: MatcherOptions) -> Matcher:
    # Imported here: the process of a libreapi_cli graph starts in a third of the time without it.
    from fluence_extender.matcher.engine import EmbeddedEngine

    return EmbeddedEngine(graph, options)


def _log_once(reason: str) -> None:
    if reason not in _logged:
        import structlog

        _logged.add(reason)
        structlog.get_logger(__name__).warning(
            "libreapi_cli isn't available; the embedded engine is used", reason=reason
        )
