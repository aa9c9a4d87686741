"""Follow resources.yaml while the service runs: a good edit replaces the old resources, a bad edit changes nothing.

A fault at the start is fatal, because placing jobs on half a configuration is worse than not starting. A fault in a
live edit is reported, and the last good resources stay in force.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.graph.errors import InvalidResourcesFile
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.graph.virtual import VirtualResources

log = structlog.get_logger(__name__)


class LiveResources:
    """Follows the file, and calls ``reject`` with each bad edit and its faults.

    A file that disappears counts as an empty file, or as a bad edit if ``keep_if_gone`` is set. ``fault`` is the fault
    of the first version of the file, None if it had none.
    """

    def __init__(self, reject: Callable[[ResourcesFile, str], None], keep_if_gone: bool = False) -> None:
        self._reject = reject
        self._keep_if_gone = keep_if_gone
        self._text: str | None = None
        self._has_read = False
        self.fault: InvalidResourcesFile | None = None

    def read(self, file: ResourcesFile) -> VirtualResources | None:
        """Return the resources to adopt from this version of the file, None for a bad edit or no edit."""
        if self._has_read and file.text == self._text:
            return None
        first, self._has_read, self._text = not self._has_read, True, file.text
        if self._keep_if_gone and file.text is None and not first:
            self._refuse(file, f"{file.source} is gone")
            return None
        try:
            parsed = parse_resources(file.text or "", file.source)
        except InvalidResourcesFile as fault:
            if first:
                self.fault = fault
            else:
                self._refuse(file, str(fault))
            return None
        self.fault = None
        return parsed

    def _refuse(self, file: ResourcesFile, why: str) -> None:
        log.error("resources.yaml is refused, the old resources stay", problems=why)
        self._reject(file, why)
