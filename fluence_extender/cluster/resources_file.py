"""resources.yaml as a local file: read once by name, then watched by polling.

Polling works on every file system and for the symlink swap of a mounted ConfigMap. Invariant: a change is
told only once two polls in a row saw the same, so that a half-written file is not taken for an edit.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from fluence_extender.cluster.port import Changed, Kind, Listed, ResourcesFile, Sink

log = structlog.get_logger(__name__)

PERIOD = 2.0


class ResourcesFileError(Exception):
    """The resources file can't be read; the message names the path and the fix."""


def read_resources_file(path: Path) -> ResourcesFile:
    """The file at ``path``, which the user named. Raises `ResourcesFileError` where it isn't there or readable."""
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
    """Polls ``path`` every ``period`` seconds; a file that went away is told as one without text."""

    def __init__(self, path: Path, sink: Sink, period: float = PERIOD) -> None:
        self.synced = asyncio.Event()
        self._path = path
        self._sink = sink
        self._period = period

    async def run(self) -> None:
        """Tell the sink the file, then each change, until cancelled. Raises `ResourcesFileError` at the start."""
        stamp = _stamp(self._path)
        told = await asyncio.to_thread(read_resources_file, self._path)
        self._sink(Listed(Kind.RESOURCES_FILE, (told,)))
        self.synced.set()
        seen = told
        while True:
            await asyncio.sleep(self._period)
            if seen == told and _stamp(self._path) == stamp:
                continue
            stamp = _stamp(self._path)
            now = await asyncio.to_thread(self._read_again, told)
            if now == seen and now != told:
                told = now
                self._sink(Changed(Kind.RESOURCES_FILE, told))
            seen = now

    def _read_again(self, last: ResourcesFile) -> ResourcesFile:
        try:
            return read_resources_file(self._path)
        except ResourcesFileError as error:
            if not self._path.exists():
                return ResourcesFile(str(self._path), None)
            log.warning("the resources file can't be read; the last text is kept", problem=str(error))
            return last


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Changes when the file does, as far as its file system tells."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
