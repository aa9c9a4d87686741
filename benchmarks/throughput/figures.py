"""The measured figures as plain values, kept in a JSON file so that a page can combine several runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.throughput.measure import Outcome


@dataclass(slots=True)
class Figure:
    """One measurement: ``cpu`` in ms for each pod by process, latencies in seconds, writes for each pod by kind."""

    nodes: int
    contender: str
    workload: str
    mode: str
    pods: int
    rate: float
    to_last: float
    to_running: float
    p50: float
    p99: float
    load: float
    cpu: dict[str, float] = field(default_factory=dict)
    writes: dict[str, float] = field(default_factory=dict)

    @property
    def key(self) -> tuple[int, str, str, str]:
        """The key of a measurement."""
        return self.nodes, self.mode, self.workload, self.contender


def figure(nodes: int, outcome: Outcome) -> Figure:
    """Return the figures of an outcome that a page shows."""
    late = outcome.latencies
    return Figure(
        nodes=nodes,
        contender=outcome.contender,
        workload=outcome.workload,
        mode=outcome.mode,
        pods=outcome.pods,
        rate=outcome.rate,
        to_last=outcome.to_last,
        to_running=outcome.to_running,
        p50=late[len(late) // 2],
        p99=late[min(int(len(late) * 0.99), len(late) - 1)],
        load=outcome.load,
        cpu={name: outcome.cpu(name) for name in outcome.used.cpu},
        writes={name: count / outcome.pods for name, count in sorted(outcome.used.writes.items())},
    )


@dataclass(slots=True)
class Figures:
    """All measurements by their key, and the cost by cluster size without a network."""

    measured: dict[tuple[int, str, str, str], Figure] = field(default_factory=dict)
    scale: dict[str, dict[int, float]] = field(default_factory=dict)

    def add(self, one: Figure) -> None:
        """Add a measurement; a newer one replaces an older one."""
        self.measured[one.key] = one

    def find(self, nodes: int, mode: str, workload: str, contender: str) -> Figure | None:
        """Return a measurement, None where it wasn't made."""
        return self.measured.get((nodes, mode, workload, contender))

    def save(self, file: Path) -> None:
        """Write everything to ``file``."""
        document = {"measured": [asdict(one) for one in self.measured.values()], "scale": self.scale}
        file.write_text(json.dumps(document, indent=1) + "\n")

    @classmethod
    def load(cls, file: Path) -> Figures:
        """Return the measurements in ``file``, none where there is no such file."""
        figures = cls()
        if file.exists():
            document = json.loads(file.read_text())
            for one in document["measured"]:
                figures.add(Figure(**one))
            scale: Mapping[str, Mapping[str, float]] = document["scale"]
            figures.scale = {name: {int(n): cost for n, cost in by.items()} for name, by in scale.items()}
        return figures
