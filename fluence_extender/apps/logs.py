"""The format of log lines: text for people at a terminal, JSON for a cluster's log store, both on stderr.

Invariant: no line contains the local variables of a traceback, because those contain what users wrote in their pods.
"""

from __future__ import annotations

import logging
import sys

import structlog


def set_up_logging(log_format: str = "text", level: int = logging.INFO) -> None:
    """Write log lines of ``level`` and above (`logging`'s numbers) as ``log_format``, text or json."""
    last: list[structlog.types.Processor]
    if log_format == "json":
        last = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        last = [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *last,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(level),
    )
