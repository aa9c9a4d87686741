"""A local resources.yaml is read by name, and then followed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fluence_extender.cluster.errors import ResourcesFileError
from fluence_extender.cluster.port import Changed, Listed, Observation, ResourcesFile
from fluence_extender.cluster.resources_file import FileWatch, read_resources_file
from tests.unit.cluster.fake_api_server import eventually


@asynccontextmanager
async def following(path: Path) -> AsyncIterator[list[Observation]]:
    observations: list[Observation] = []
    watch = FileWatch(path, observations.append, period=0.02)
    task = asyncio.create_task(watch.run())
    await watch.synced.wait()
    try:
        yield observations
    finally:
        task.cancel()
        await asyncio.wait([task])


def texts(observations: list[Observation]) -> list[str | None]:
    return [
        one.object.text
        for one in observations
        if isinstance(one, Changed) and isinstance(one.object, ResourcesFile)
    ]


def write(path: Path, text: str | bytes) -> None:
    path.write_bytes(text.encode() if isinstance(text, str) else text)


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResourcesFileError, match=r"none\.yaml doesn't exist: correct"):
        read_resources_file(tmp_path / "none.yaml")
    with pytest.raises(ResourcesFileError, match="can't be read"):
        read_resources_file(tmp_path)
    broken = tmp_path / "broken.yaml"
    broken.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ResourcesFileError, match="isn't UTF-8"):
        read_resources_file(broken)


async def test_edits_removal_and_return_reach_the_sink(tmp_path: Path) -> None:
    path = tmp_path / "resources.yaml"
    write(path, "a")
    async with following(path) as observations:
        assert observations == [Listed(ResourcesFile, (ResourcesFile(str(path), "a"),))]
        write(path, "b")
        await eventually(lambda: texts(observations) == ["b"])
        path.unlink()
        await eventually(lambda: texts(observations) == ["b", None])
        write(path, "c")
        await eventually(lambda: texts(observations) == ["b", None, "c"])


async def test_swapped_symbolic_link_is_an_edit(tmp_path: Path) -> None:
    first, second, path = tmp_path / "1", tmp_path / "2", tmp_path / "resources.yaml"
    write(first, "a")
    write(second, "b")
    path.symlink_to(first)
    async with following(path) as observations:
        new = tmp_path / "new"
        new.symlink_to(second)
        new.replace(path)
        await eventually(lambda: texts(observations) == ["b"])


async def test_unreadable_edit_keeps_the_last_text(tmp_path: Path) -> None:
    path = tmp_path / "resources.yaml"
    write(path, "a")
    async with following(path) as observations:
        write(path, b"\xff\xfe\x00")
        await asyncio.sleep(0.15)
        write(path, "b")
        await eventually(lambda: texts(observations) == ["b"])
