"""Read resources.yaml from a local file, and watch it by polling.

Polling works on every file system, and for the symlink swap of a mounted ConfigMap. Invariant: the sink gets a change
only after two polls in a row have read the same text, so that a half-written file doesn't count as an edit.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from fluence_extender.cluster.errors import ResourcesFileError
from fluence_extender.cluster.port import Changed, Listed, ResourcesFile, Sink

log = structlog.get_logger(__name__)

PERIOD = 2.0


def read_resources_file(path: Path) -> ResourcesFile:
    """Return the file at ``path``, which the user named. Raise `ResourcesFileError` if it can't be read."""
    try:
        return ResourcesFile(str(path), path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ResourcesFileError(
            f"resources file {path} doesn't exist: correct it, or leave --resources out for the ConfigMap"
        ) from None
    except UnicodeDecodeError as error:
        raise ResourcesFileError(f"resources file {path} isn't UTF-8 text: {error}") from None
    except OSError as error:
        raise ResourcesFileError(f"resources file {path} can't be read: {error.strerror}") from None


class FileWatch:
    """Polls ``path`` every ``period`` seconds. A file that was removed is reported as one without text."""

    def __init__(self, path: Path, sink: Sink, period: float = PERIOD) -> None:
        self.synced = asyncio.Event()
        self._path = path
        self._sink = sink
        self._period = period

    async def run(self) -> None:
        """Send the sink the file, then each change, until cancelled. Raise `ResourcesFileError` at the start."""
        stamp = _stamp(self._path)
        sent = await asyncio.to_thread(read_resources_file, self._path)
        self._sink(Listed(ResourcesFile, (sent,)))
        self.synced.set()
        last_read = sent
        while True:
            await asyncio.sleep(self._period)
            if last_read == sent and _stamp(self._path) == stamp:
                continue
            stamp = _stamp(self._path)
            now = await asyncio.to_thread(self._read_again, sent)
            if now == last_read and now != sent:
                sent = now
                self._sink(Changed(sent))
            last_read = now

    def _read_again(self, last: ResourcesFile) -> ResourcesFile:
        try:
            return read_resources_file(self._path)
        except ResourcesFileError as error:
            if not self._path.exists():
                return ResourcesFile(str(self._path), None)
            log.warning("the resources file can't be read; the last text is kept", problem=str(error))
            return last


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return modification time, size and inode, which change with the file; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
