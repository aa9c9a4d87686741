"""Every string that the library allocates is freed with libc's free, once, on success and on failure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.ffi.stub import compile_library

ROOT = Path(__file__).parents[2]
GIVES_STRING = ("match", "match_with_jobid", "update_allocate", "info", "find")
CALLS = (
    *GIVES_STRING,
    "initialize",
    "match_satisfy",
    "cancel",
    "partial_cancel",
    "add_subgraph",
    "remove_subgraph",
    "set_status",
    "get_status",
    "set_rank_status",
    "get_rank_status",
)


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    library = compile_library(tmp_path_factory.mktemp("watched") / "libreapi_cli.so", "-DWATCH_FREE", "-ldl")
    done = subprocess.run(
        [sys.executable, "-m", "tests.ffi.ownership_probe", str(library)],
        cwd=ROOT,
        env=os.environ | {"LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads(done.stdout)
    return results


def test_the_stand_in_notices_a_string_that_is_not_freed(probe: dict[str, Any]) -> None:
    assert probe["unfreed"]["success"] == [1, 1]


@pytest.mark.parametrize("call", CALLS)
def test_success_frees_what_it_was_given(probe: dict[str, Any], call: str) -> None:
    handed_out, outstanding = probe[call]["success"]
    assert outstanding == 0
    assert handed_out == (1 if call in GIVES_STRING else 0)


@pytest.mark.parametrize("call", CALLS)
def test_failure_frees_the_error_text_and_whatever_else_it_was_given(
    probe: dict[str, Any], call: str
) -> None:
    handed_out, outstanding = probe[call]["failure"]
    assert outstanding == 0
    assert handed_out == (2 if call in GIVES_STRING else 1)
