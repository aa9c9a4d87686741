"""kubectl fluence on a real control plane, with the real kubectl: what is chosen is what the objects carry."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from fluence_extender.model.names import (
    BACKEND_ANNOTATION,
    REQUIRE_BACKEND_ANNOTATION,
    SELECT_RESULT_ANNOTATION,
)
from tests.e2e.harness import Cluster, Namespace, annotations_of, wait_for
from tests.e2e.nodes import NodeFactory
from tests.e2e.plugin import EXAMPLES, ROOT, Plugin, user_shell
from tests.e2e.service import Fluence

GPU = ("-f", "examples/selection/gpu-pod.yaml", "--attributes", "examples/selection/gpu-attributes.yaml")
QUANTUM = (
    "--filename=examples/selection/quantum-job.yaml",
    "--attributes=examples/selection/quantum-attributes.yaml",
)
PLAIN = EXAMPLES / "plain-pod.yaml"
DOCUMENTATION = ROOT / "docs" / "kubectl.md"
REWRITE = "FLUENCE_REWRITE_DOCS"
QUESTIONS = "## Questions\n"
"""Where the part begins that has its own test."""


@pytest.fixture
def plugin(cluster: Cluster, namespace: Namespace, tmp_path: Path) -> Plugin:
    """A user's shell in the test's namespace."""
    return user_shell(cluster.kubeconfig, namespace.name, tmp_path)


@pytest.fixture
def offers(fluence: Fluence, resources: Callable[[str], None]) -> None:
    """The cluster offers what the examples say: not gpu-t4."""
    resources((EXAMPLES / "resources.yaml").read_text())


@pytest.mark.usefixtures("offers")
def test_select_chooses_among_what_is_offered(plugin: Plugin, namespace: Namespace) -> None:
    ended = plugin.fluence("select", *GPU)
    assert ended.returncode == 0, ended
    assert "require-backend: gpu-l4" in ended.stdout
    assert "dropped gpu-t4: not offered by the cluster scheduler" in ended.stderr
    assert "dropped gpu-a100: min-cost: cost_usd 3.2, best is 0.8" in ended.stderr
    assert not namespace.pods()


@pytest.mark.usefixtures("offers")
def test_apply_stamps_the_object_and_the_service_obeys(
    plugin: Plugin, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    ended = plugin.fluence("apply", *GPU)
    assert (ended.returncode, ended.stdout) == (0, "pod/train created\n"), ended
    (pod,) = namespace.wait_until_bound(1)
    notes = annotations_of(pod)
    assert notes[REQUIRE_BACKEND_ANNOTATION] == "gpu-l4"
    assert notes[BACKEND_ANNOTATION] == "gpu-l4"
    result = json.loads(notes[SELECT_RESULT_ANNOTATION])
    assert result["chosen"] == "gpu-l4"
    assert result["dropped"]["gpu-t4"] == "not offered by the cluster scheduler"
    again = plugin.fluence("apply", *GPU)
    assert again.returncode == 0, again


@pytest.mark.usefixtures("offers")
def test_cost_follows_from_its_parts_and_nobody_calls_aws(plugin: Plugin) -> None:
    ended = plugin.fluence("select", *QUANTUM)
    assert ended.returncode == 0, ended
    document = yaml.safe_load(ended.stdout)
    result = json.loads(annotations_of(document)[SELECT_RESULT_ANNOTATION])
    assert result["candidates"][0]["attributes"]["cost_usd"] == 0.00375
    assert result["dropped"] == {
        "iqm_garnet": "min-cost: cost_usd 1.75, best is 0.00375",
        "rigetti_cepheus": "min-cost: cost_usd 1.2, best is 0.00375",
        "gpu-a100": "offered by scheduler but no attributes available (not in file/providers)",
        "gpu-l4": "offered by scheduler but no attributes available (not in file/providers)",
    }
    assert annotations_of(document)[REQUIRE_BACKEND_ANNOTATION] == "sv1"
    assert not plugin.aws_calls.exists()


@pytest.mark.usefixtures("offers")
def test_pods_of_a_job_carry_the_pin_and_get_the_backend(
    plugin: Plugin, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    ended = plugin.fluence("create", *QUANTUM)
    assert ended.returncode == 0, ended
    notes = [annotations_of(pod) for pod in namespace.wait_until_bound(2)]
    assert [one[REQUIRE_BACKEND_ANNOTATION] for one in notes] == ["sv1", "sv1"]
    assert [one[BACKEND_ANNOTATION] for one in notes] == ["sv1", "sv1"]


def test_plain_pod_passes_unchanged(plugin: Plugin, namespace: Namespace) -> None:
    shown = plugin.fluence("select", "-f", str(PLAIN))
    assert (shown.returncode, shown.stdout) == (0, PLAIN.read_text())
    assert "nothing is changed" in shown.stderr
    ended = plugin.fluence("apply", "-f", "-", stdin=PLAIN.read_text())
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "pod/plain created\n", "")
    (pod,) = namespace.pods()
    assert SELECT_RESULT_ANNOTATION not in annotations_of(pod)


def test_offers_with_attributes_need_no_file(
    plugin: Plugin, fluence: Fluence, resources: Callable[[str], None]
) -> None:
    resources(
        "resources:\n"
        '  - {type: accelerator, name: small, attributes: {cost_usd: "1", memory_gb: "24"}}\n'
        '  - {type: accelerator, name: large, attributes: {cost_usd: "2", memory_gb: "48"}}\n'
    )
    ended = plugin.fluence("select", "-f", "examples/selection/gpu-pod.yaml")
    assert ended.returncode == 0, ended
    assert "require-backend: small" in ended.stdout


@pytest.mark.usefixtures("offers")
def test_dry_runs_change_nothing(plugin: Plugin, namespace: Namespace) -> None:
    for mode, told in (("", "(dry run)"), ("=client", "(dry run)"), ("=server", "(server dry run)")):
        ended = plugin.fluence("apply", *GPU, f"--dry-run{mode}")
        assert ended.returncode == 0, ended
        assert "require-backend: gpu-l4" in ended.stdout
        assert ended.stdout.endswith(f"pod/train created {told}\n")
    assert not namespace.pods()


def test_answer_no_applies_nothing(plugin: Plugin, namespace: Namespace) -> None:
    ended = plugin.fluence("apply", *GPU, "--confirm", stdin="n\n")
    assert ended.returncode == 0, ended
    assert "cancelled; nothing applied" in ended.stderr
    assert not namespace.pods()


def test_exit_code_of_kubectl_is_passed_on(plugin: Plugin) -> None:
    words = ("create", "-f", str(PLAIN), "-n", "nowhere-at-all")
    plain, ours = plugin.run(*words), plugin.fluence(*words)
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout)
    assert ours.returncode != 0
    assert 'namespaces "nowhere-at-all" not found' in ours.stderr


def test_user_who_may_not_read_the_offers_is_told_so(
    plugin: Plugin, control_plane: object, service_account: Callable[[str], Path]
) -> None:
    ended = plugin.fluence("select", *GPU, kubeconfig=service_account("nobody"))
    assert ended.returncode == 0, ended
    first = ended.stderr.splitlines()[0]
    assert first.startswith("note: could not read scheduler offerings (configmaps")
    assert "require-backend: gpu-l4" in ended.stdout


@pytest.mark.usefixtures("offers")
def test_role_of_the_documentation_lets_everybody_read_the_offers(
    plugin: Plugin, service_account: Callable[[str], Path]
) -> None:
    commands = [
        line
        for line in DOCUMENTATION.read_text().splitlines()
        if line.startswith("kubectl create role") and "fluence-offers" in line
    ]
    user = service_account("somebody")
    try:
        assert [plugin.shell(command).rpartition(" ")[2] for command in commands] == ["created\n"] * 2
        # Rights are granted by a cache that follows.
        ended = wait_for(
            lambda: (
                found
                if "note" not in (found := plugin.fluence("select", *GPU, kubeconfig=user)).stderr
                else None
            )
        )
    finally:
        for kind in ("role", "rolebinding"):
            plugin.run("delete", kind, "fluence-offers", "-n", "fluence-system")
    assert ended is not None
    assert "dropped gpu-t4: not offered" in ended.stderr


def test_cluster_that_does_not_answer_is_told_so(plugin: Plugin, tmp_path: Path) -> None:
    document = yaml.safe_load(plugin.kubeconfig.read_text())
    for one in document["clusters"]:
        one["cluster"]["server"] = "https://127.0.0.1:1"
    gone = tmp_path / "gone"
    gone.write_text(yaml.safe_dump(document))
    shown = plugin.fluence("select", *GPU, kubeconfig=gone)
    assert shown.returncode == 0, shown
    assert "note: could not read scheduler offerings (" in shown.stderr
    ended = plugin.fluence("apply", *GPU, kubeconfig=gone)
    assert ended.returncode == 1
    assert "was refused" in ended.stderr


@pytest.mark.usefixtures("offers")
def test_recorded_sessions_of_the_documentation_are_true(
    plugin: Plugin, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    """Each command of docs/kubectl.md prints what stands there; FLUENCE_REWRITE_DOCS=1 writes it anew."""
    own_nodes(1, cpu="4")
    first, heading, questions = DOCUMENTATION.read_text().partition(QUESTIONS)
    recorded = re.sub(
        r"(?<=```console\n).*?(?=```)", lambda block: _session(plugin, block.group()), first, flags=re.S
    )
    assert recorded.count("$ kubectl") > 5
    if os.environ.get(REWRITE):
        DOCUMENTATION.write_text(recorded + heading + questions)
    assert recorded == first or os.environ.get(REWRITE)


def _session(plugin: Plugin, block: str) -> str:
    """A console block with what its commands print now."""
    commands = [line for line in block.splitlines() if line.startswith("$ ")]
    shown = "".join(f"{command}\n{plugin.shell(command.removeprefix('$ '))}" for command in commands)
    return re.sub(r'(?<="resolved_at":")[^"]+', "2026-06-30T12:00:00Z", shown)
