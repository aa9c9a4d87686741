"""resources.yaml while the service lives: a good edit replaces the old resources, a bad one changes nothing.

A fault at the start is fatal, because placing jobs on half a configuration is worse than not starting. A fault in a
live edit is told in the log, in a metric and in an Event, and the last good resources stay in force.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from fluence_extender.cluster import port
from fluence_extender.graph.errors import InvalidResourcesFile
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.graph.virtual import VirtualResources

log = structlog.get_logger(__name__)


class LiveResources:
    """Follows the file: ``adopt`` is called with each good edit, ``reject`` with each bad one and its faults.

    An edit of which no graph can be built shows only later, by `taken_back`. A file that goes away is as good as an
    empty one, or with ``keeps`` as a bad one.

    ``fault`` is what is wrong with the file as it was first seen, None when nothing is.
    """

    def __init__(
        self,
        adopt: Callable[[VirtualResources], None],
        reject: Callable[[port.ResourcesFile, str], None],
        keeps: bool = False,
    ) -> None:
        self._adopt = adopt
        self._reject = reject
        self._keeps = keeps
        self._text: str | None = None
        self._seen = False
        self.fault: InvalidResourcesFile | None = None

    def take(self, file: port.ResourcesFile) -> None:
        """Take in the file as it is now."""
        if self._seen and file.text == self._text:
            return
        first, self._seen, self._text = not self._seen, True, file.text
        if self._keeps and file.text is None and not first:
            self._refuse(file, f"{file.source} is gone")
            return
        try:
            parsed = parse_resources(file.text or "", file.source)
        except InvalidResourcesFile as fault:
            if first:
                self.fault = fault
            else:
                self._refuse(file, str(fault))
            return
        self.fault = None
        self._adopt(parsed)

    def taken_back(self, resources: VirtualResources, why: str) -> None:
        """Tell that no graph could be built of resources that had been adopted."""
        self._refuse(port.ResourcesFile(resources.source, self._text), why)

    def _refuse(self, file: port.ResourcesFile, why: str) -> None:
        log.error("resources.yaml is refused, the old resources stay", problems=why)
        self._reject(file, why)
