"""What an engine raises."""

from __future__ import annotations


class EngineError(Exception):
    """An engine can't load a graph or answer a question; the message says why."""


class EngineUnavailable(EngineError):
    """No usable libreapi_cli is found; the message says what to install."""


class EngineLost(EngineError):
    """The process that an engine runs in has ended or no longer answers; everything it held is gone."""
