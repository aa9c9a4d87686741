"""resources.yaml while the service lives: a good edit replaces the old resources, a bad one changes nothing.

A fault at the start is fatal, because placing jobs on half a configuration is worse than not starting. A fault in a
live edit is told in the log, in a metric and in an Event, and the last good resources stay in force.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from fluence_extender.cluster import port
from fluence_extender.graph.jgf import GraphTooLarge
from fluence_extender.graph.problem import InvalidResourcesFile
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.matcher.errors import MatcherError

log = structlog.get_logger(__name__)


class LiveResources:
    """Follows the file: ``adopt`` is called with each good edit, ``reject`` with each bad one and its faults.

    An edit that ``adopt`` refuses (`MatcherError`, `GraphTooLarge`) is a bad one too.

    ``fault`` is what is wrong with the file as it was first seen, None when nothing is.
    """

    def __init__(
        self, adopt: Callable[[VirtualResources], None], reject: Callable[[port.ResourcesFile, str], None]
    ) -> None:
        self._adopt = adopt
        self._reject = reject
        self._text: str | None = None
        self._seen = False
        self.fault: InvalidResourcesFile | None = None

    def take(self, file: port.ResourcesFile) -> None:
        """Take in the file as it is now."""
        if self._seen and file.text == self._text:
            return
        first, self._seen, self._text = not self._seen, True, file.text
        try:
            parsed = parse_resources(file.text or "", file.source)
        except InvalidResourcesFile as fault:
            if first:
                self.fault = fault
            else:
                self._refuse(file, str(fault))
            return
        self.fault = None
        try:
            self._adopt(parsed)
        except (MatcherError, GraphTooLarge) as fault:
            self._refuse(file, str(fault))

    def _refuse(self, file: port.ResourcesFile, why: str) -> None:
        log.error("resources.yaml is refused, the old resources stay", problems=why)
        self._reject(file, why)
