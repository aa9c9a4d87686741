"""Measure how fast Queues with quotas admit Jobs, and what that costs, beside Kueue.

    python -m benchmarks.admission [--part 0.02] [--rounds 2] [--write]

Kueue is built from its Go module first, which takes minutes. Run it on a machine that does nothing else, as root.
"""

from __future__ import annotations

import argparse
import random

from rich.console import Console

from benchmarks.admission.contenders import Admitter, FluenceAdmits, KueueAdmits
from benchmarks.admission.measure import Outcome, measured
from benchmarks.admission.page import page
from benchmarks.admission.shape import priority_classes, submitted
from benchmarks.report import PAGES
from benchmarks.throughput.policies import ACCOUNT, policies
from fluence_extender.demo.manifests import shipped
from fluence_extender.localcluster import ControlPlane

PAGE = PAGES / "admission.md"
NODES, CORES = 100, 32
console = Console()


def main() -> None:
    """Measure, print the page, and with ``--write`` write it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", type=float, default=0.02, help="of the Jobs of each class and queue")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--write", action="store_true", help=f"write docs/benchmarks/{PAGE.name}")
    given = parser.parse_args()
    work = submitted(given.part)
    found: list[Outcome] = []
    with ControlPlane() as plane:
        for manifest in (*shipped(*ACCOUNT), *priority_classes()):
            plane.api.apply(manifest)
        plane.add_nodes(NODES, cpu=CORES, memory="128Gi", timeout=900)
        # Without the Job controller no Job gets pods.
        plane.component("kube-controller-manager").stop()
        for number in range(1, given.rounds + 1):
            contenders: list[Admitter] = [FluenceAdmits(plane), KueueAdmits(plane)]
            for contender in random.sample(contenders, len(contenders)):
                with policies(plane, isinstance(contender, FluenceAdmits)):
                    found.append(measured(plane, contender, work, number))
                console.print(found[-1], markup=False)
    text = page(found, NODES, CORES, given.part)
    console.print(text, markup=False)
    if given.write:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
