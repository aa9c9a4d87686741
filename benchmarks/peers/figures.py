"""The figures of all contenders as plain values, kept in a JSON file, so that a page can combine several runs."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.peers.contests import Contest
from benchmarks.peers.notices import Notice
from benchmarks.throughput.figures import Figure


@dataclass(slots=True)
class PeerFigures:
    """All rounds of each measurement by its key, all contests by theirs, and by name what failed, with the reason.

    Contenders are compared within a round.
    """

    rounds: dict[tuple[int, str], list[dict[str, Figure]]] = field(default_factory=dict)
    contests: dict[tuple[int, str, str], Contest] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def add_round(self, nodes: int, workload: str, found: list[Figure]) -> None:
        """Add what one round measured, a figure for each contender."""
        self.rounds.setdefault((nodes, workload), []).append({one.contender: one for one in found})

    def forget(self, nodes: int, workload: str, contenders: Collection[str], always: Collection[str]) -> None:
        """Forget what is measured anew: these contenders, and rounds that have only those of ``always``, left."""
        kept = [
            {name: one for name, one in by.items() if name in always or name not in contenders}
            for by in self.rounds.pop((nodes, workload), [])
        ]
        if kept := [by for by in kept if not set(by) <= set(always)]:
            self.rounds[nodes, workload] = kept

    def add_contest(self, one: Contest) -> None:
        """Add a contest; a newer one replaces an older one."""
        self.contests[one.key] = one

    def save(self, file: Path) -> None:
        """Write everything to ``file``."""
        document = {
            "rounds": [
                {"nodes": nodes, "workload": workload, "figures": [asdict(one) for one in by.values()]}
                for (nodes, workload), rounds in self.rounds.items()
                for by in rounds
            ],
            "contests": [asdict(one) for one in self.contests.values()],
            "failures": self.failures,
        }
        file.write_text(json.dumps(document, indent=1) + "\n")

    @classmethod
    def load(cls, file: Path) -> PeerFigures:
        """Return the figures in ``file``, none where there is no such file."""
        figures = cls()
        if not file.exists():
            return figures
        document = json.loads(file.read_text())
        for one in document["rounds"]:
            figures.add_round(one["nodes"], one["workload"], [Figure(**each) for each in one["figures"]])
        for one in document["contests"]:
            told = [Notice(**each) for each in one.pop("told")]
            figures.add_contest(Contest(**one, told=told))
        figures.failures = document["failures"]
        return figures
