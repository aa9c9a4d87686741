"""From a pod of the cluster to the answer of the state API: gangs run, and the account says so."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fluence_extender.accounting.address import parse_address
from fluence_extender.accounting.reader import DatabaseReader
from fluence_extender.model.accounting import Grouping, RunQuestion
from tests.core.values import node
from tests.core.world import World
from tests.unit.accounting.accounts import ALL
from tests.unit.accounting.conftest import MakeWriter, until
from tests.unit.gangs.conftest import gang


def test_gang_that_runs_and_ends_is_in_the_account(tmp_path: Path, writer: MakeWriter) -> None:
    url = parse_address(str(tmp_path / "history.db"))
    one = writer(url)
    w = World(node("n0"), node("n1"), sink=one)
    pods = gang(w, "train", 3000, 3000)
    w.advance(3)
    for pod in pods:
        w.change(pod, phase="Running", started=10.0)
    w.advance(1)
    for pod in pods:
        w.change(pod, phase="Succeeded", ended=110.0)
    w.advance(1)
    w.restart()
    w.advance(1)
    w.close()
    until(one.idle)
    reader = DatabaseReader(url)
    (run,) = asyncio.run(reader.runs(RunQuestion(), ALL))
    used = asyncio.run(reader.usage(Grouping.QUEUE, 0, "", ALL))
    reader.close()
    assert (run.name, run.pods, set(run.nodes)) == ("train", 2, {"n0", "n1"})
    assert run.ended is not None
    assert (run.started.timestamp(), run.ended.timestamp(), run.outcome) == (10, 110, "Succeeded")
    assert {(one.name, one.resource): one.unit_seconds for one in used} == {
        ("default", "cpu"): 2 * 3000 * 100,
        ("default", "memory"): 2 * 1024 * 100,
    }
