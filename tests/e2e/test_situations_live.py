"""The answers of ``tests/integration/whatif/situations`` are those of a live cluster too, and they come true there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from fluence_extender.apps.cli.simulate import simulate
from fluence_extender.apps.kubectl.simulate import answer_lines
from tests.e2e.admitted import wait_for_contract
from tests.e2e.harness import Manifest, Namespace, wait_for
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.predicted import asked, bound_at_first, bound_in_the_end, created, deleted
from tests.e2e.service import Fluence, backends
from tests.integration.whatif.test_situations import read_pair
from tests.localcluster import ControlPlane
from tests.localcluster.stack import Webhook

FOLDER = Path(__file__).parents[1] / "integration" / "whatif" / "situations"
REFUSAL = re.compile(r"(the API server refuses [^:]*): .*")
"""The embedded cluster doesn't refuse in the same words as the API server."""

SERVED = {"Job", "CronJob", "Deployment", "StatefulSet", "Pod", "LimitRange"}
"""Kinds whose objects are created here: a controller makes their pods, and the namespace goes with them."""

UNLIKE = {
    "stateful-set-with-claims": "nothing provides the volumes",
    "cron-job": "its time doesn't come",
    "anti-affinity-by-zone": "all nodes are in one zone",
    "pod-with-a-node": "no scheduler is asked",
    "example-09-default-scheduler": "its scheduler doesn't run here",
    "example-quantum-02-shared-gang": "nobody submits its task here",
    "example-quantum-03-observe": "nobody submits its task here",
}
"""Situations whose work doesn't become here what the answer says, with the reason, which the answer notes."""


def situations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(FOLDER.glob("*.yaml")):
        pair = read_pair(path)
        if pair["cluster"] == "three":
            yield path.stem, pair


def without_words(answer: str) -> str:
    return REFUSAL.sub(r"\1", answer)


def commands_answer(plane: ControlPlane, manifests: list[Manifest], at: Path) -> str:
    """What ``fluence-extender simulate`` says of the live cluster."""
    at.write_text(yaml.safe_dump_all(manifests))
    result = CliRunner().invoke(simulate, ["-f", str(at), "--kubeconfig", str(plane.kubeconfig)])
    assert result.exit_code in (0, 3), result.output
    return result.output


@pytest.fixture
def three(nodes: NodeFactory) -> None:
    """The nodes of ``clusters/three.yaml``."""
    for number, rack, devices in ((1, 1, {"example.com/npu": 8}), (2, 1, {}), (3, 2, {})):
        labels = {"topology.kubernetes.io/zone": "z1", "example.com/rack": f"rack-{rack}"}
        nodes(1, names=[f"n{number}"], cpu="4", memory="16Gi", labels=labels, extended=devices)


def test_answers_hold_on_a_live_cluster(
    fluence: Fluence,
    namespace: Namespace,
    three: None,
    installation: Installation,
    resources: Callable[[str], None],
    webhook: Webhook,
    tmp_path: Path,
) -> None:
    declared = None
    for name, pair in situations():
        if pair.get("resources", declared) != declared:
            declared = pair["resources"]
            resources(yaml.safe_dump(declared))
            names = {one["name"] for one in declared["resources"]}
            wait_for(lambda: backends(fluence) == names, what="the backends")  # noqa: B023
            if "attributes" in declared:
                wait_for_contract(namespace, "FLUXION_ENDPOINT")
        manifests = pair["manifests"]
        document = asked(installation, namespace, json.loads(json.dumps(manifests)))
        answer = "".join(f"{line}\n" for line in answer_lines(document))
        expected = without_words(pair["answer"])
        assert without_words(answer.replace(namespace.name, "default")) == expected, name
        output = commands_answer(installation.plane, manifests, tmp_path / "manifests.yaml")
        assert without_words(output) == expected, name
        if {one["kind"] for one in manifests} <= SERVED and name not in UNLIKE:
            predicted = bound_at_first(manifests, document)
            bound = bound_in_the_end(namespace, predicted) if created(namespace, manifests) else 0
            assert bound == predicted, (name, document, fluence.gangs(namespace.name))
            deleted(namespace, fluence)
