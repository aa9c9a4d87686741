"""Every engine that is installed follows every rule, as the rule's case shows.

On libreapi_cli each case has a process of its own. The order in which a process first met the resource types changes
answers. A crash or a hang also fails one case only.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection

import pytest

from tests.engines import FLUXION
from tests.oracle.conformance.catalogue import CASES
from tests.oracle.conformance.session import Case, differences
from tests.oracle.fluxion import create_fluxion_matcher
from tests.oracle.walker import Walker

_LONGEST = 30.0
"""Seconds that the library may take for a case before it counts as hanging."""

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.oracle.conformance.test_conformance", "tests.oracle.fluxion"])


def test_every_case_has_a_name_of_its_own() -> None:
    assert len({shown.name for shown in CASES}) == len(CASES)


@pytest.mark.parametrize("shown", CASES, ids=lambda shown: shown.name)
def test_oracle(shown: Case) -> None:
    assert differences(shown, Walker) == []


def _send_differences(shown: Case, sender: Connection) -> None:
    sender.send(differences(shown, create_fluxion_matcher))


if FLUXION.library is not None:

    @pytest.mark.parametrize("shown", CASES, ids=lambda shown: shown.name)
    def test_libreapi_cli(shown: Case) -> None:
        receiver, sender = _processes.Pipe(duplex=False)
        process = _processes.Process(target=_send_differences, args=(shown, sender))
        process.start()
        sender.close()
        try:
            assert receiver.poll(_LONGEST), "no answer"
            try:
                lines = receiver.recv()
            except EOFError:
                process.join()
                pytest.fail(f"the process ended with {process.exitcode}")
            assert lines == []
        finally:
            process.kill()
            process.join()
            process.close()
            receiver.close()
