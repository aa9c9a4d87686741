"""Each command that the texts show is one that works, as far as that can be tried without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from fluence_extender.apps.cli import main
from tests.docs.clone import make_clone
from tests.docs.errors import WrongCommand
from tests.docs.reading import Shown, commands
from tests.docs.shell import started
from tests.docs.trying import tried


@pytest.fixture(scope="session")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone with the files that users have of their own."""
    return make_clone(tmp_path_factory.mktemp("texts"))


@pytest.fixture(autouse=True)
def there(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs in that clone."""
    monkeypatch.chdir(clone)


@pytest.mark.parametrize("shown", commands(), ids=lambda shown: f"{shown.where} {shown.text}")
def test_command_is_one_that_its_program_reads(shown: Shown, clone: Path) -> None:
    tried(shown.text, shown.whole, clone)


NEEDS_NO_CLUSTER = ("--help", "--nodes", "check", "scheduler-config", "version")
RUNNABLE = [
    (shown.where, words[1:])
    for shown in commands()
    for words in started(shown.text)
    if shown.whole and words[0] == "fluence-extender" and set(words) & set(NEEDS_NO_CLUSTER)
]


@pytest.mark.parametrize(("where", "words"), RUNNABLE, ids=lambda one: str(one))
def test_command_that_needs_no_cluster_works(where: str, words: list[str]) -> None:
    ended = CliRunner().invoke(main, words)
    assert ended.exit_code == 0, ended.output


def test_commands_of_all_kinds_are_found() -> None:
    programs = {words[0] for shown in commands() for words in started(shown.text)}
    assert {"kubectl", "fluence-extender", "make", "python", "docker"} <= programs
    assert len(commands()) > 150
    assert len(RUNNABLE) > 5


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("kubectl fluence whi wide", "unknown command"),
        ("kubectl fluence why wide --al", "No such option"),
        ("fluence-extender serv", "No such command"),
        ("fluence-extender serve --engin x", "No such option"),
        ("fluence-extender serve --port many", "not a valid integer"),
        ("make tests", "no target tests"),
        ("make demo ARGS=--kep", "No such option"),
        ("python -m benchmarks.restarts", "no module"),
        ("python -m benchmarks.restart --right", "no option --right"),
        (".venv/bin/python -m pytest tests/units", "there is no tests/units"),
        ("kubectl aply -f examples/01-single-pod.yaml", "unknown command"),
        ("kubectl apply -f examples/01-single-pods.yaml", "there is no examples"),
        ("kubectl apply -f examples/01-single-pod.yaml --watches", "unknown flag"),
        ("kubectl apply -k examples", "kustomization"),
        ("kubectl delete lease fluence", "belongs into the namespace"),
        ("kubectl delete mutatingadmissionpolicy fluence-gates", "there is no MutatingAdmissionPolicy"),
        ("kubectl get widget x", "no kind"),
        ("kubectl get pods -l fluence.flux-framework.org/group=trainings", "no pod has the label"),
        ("kubectl logs quantum -c sidecar", "has a container sidecar"),
        ("kubectl get events --field-selector reason=Bussy", "no event has the reason"),
        ("kubectl create clusterrolebinding a --clusterrole=fluence-views --group=b", "no ClusterRole"),
        (
            "kubectl create configmap fluence-resources --from-file examples/devices/resources.yaml",
            "belongs into",
        ),
        ("docker push registry.example.com/fluence-extender:0.0.9", "the version is"),
        ("cat examples/selection/gpu-pods.yaml", "there is no"),
        ("fluence-extends serve", "no program"),
    ],
)
def test_wrong_command_is_found(line: str, why: str, clone: Path) -> None:
    with pytest.raises(WrongCommand, match=why):
        tried(line, True, clone)
