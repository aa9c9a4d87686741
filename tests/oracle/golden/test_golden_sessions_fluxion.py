"""libreapi_cli behind the port answers every recorded call as it did when the session was recorded.

The tests exist only where the library is found; the report's header says whether it was. A crash of the library fails
its test and not the whole run.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.engines import FLUXION
from tests.oracle.processes import Processes
from tests.oracle.replay import replayed
from tests.oracle.sessions import SESSIONS, load

if FLUXION.library is not None:

    @pytest.fixture(scope="module")
    def processes() -> Iterator[Processes]:
        processes = Processes()
        yield processes
        processes.close()

    @pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.name.removesuffix(".json.gz"))
    def test_libreapi_cli_answers_as_recorded(path: Path, processes: Processes) -> None:
        assert processes.run(partial(replayed, "fluxion"), load(path)) == []
