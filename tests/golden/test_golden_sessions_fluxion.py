"""libreapi_cli behind the port answers every recorded call as it did when the session was recorded.

The tests exist only where the library is found; the report's header says whether it was. They run in
processes of their own, one for each set of resource types: up to flux-sched 0.54.0 a process that has loaded
one graph can't load another with types that the first didn't have. A crash of the library fails its test and
not the whole run.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fluence_extender.matcher.fluxion import create_fluxion_matcher
from tests.engines import FLUXION
from tests.golden.replay import SESSIONS, differences, load


def _differences(session: dict[str, Any]) -> list[str]:
    return differences(session, create_fluxion_matcher)


class Processes:
    """A process for each set of resource types."""

    def __init__(self) -> None:
        self._of_types: dict[frozenset[str], Executor] = {}

    def for_session(self, session: dict[str, Any]) -> Executor:
        types = frozenset(node["metadata"]["type"] for node in session["graph"]["graph"]["nodes"])
        if types not in self._of_types:
            context = multiprocessing.get_context("spawn")
            self._of_types[types] = ProcessPoolExecutor(1, context)
        return self._of_types[types]

    def close(self) -> None:
        for executor in self._of_types.values():
            executor.shutdown()


if FLUXION.library is not None:

    @pytest.fixture(scope="module")
    def processes() -> Iterator[Processes]:
        processes = Processes()
        yield processes
        processes.close()

    @pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.name.removesuffix(".json.gz"))
    def test_libreapi_cli_answers_as_recorded(path: Path, processes: Processes) -> None:
        session = load(path)
        assert processes.for_session(session).submit(_differences, session).result() == []
