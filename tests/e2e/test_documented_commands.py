"""The commands of kubectl in the texts work on a real API server, one after the other as users read them.

What deploy/ installs is there, but no kubelet runs it. So commands that need a running pod are left to other tests, as
are the recorded sessions of docs/kubectl.md; and what would delete the installation again is only tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
import yaml

from fluence_extender.identity.record_key import SECRET
from fluence_extender.model.names import DEFAULT_NAMESPACE
from tests.docs.clone import make_clone
from tests.docs.kubectl import positional
from tests.docs.reading import PAGES, commands, fences
from tests.docs.shell import started
from tests.e2e.admitted import REGISTRATION
from tests.e2e.harness import Manifest, documents
from tests.e2e.plugin import Plugin, user_shell
from tests.localcluster import ControlPlane

INSTALL = ["apply", "-k", "../fluence"]
TRIED_ELSEWHERE = ("fluence", "exec", "logs", "run", "--raw")
"""Words of commands that need the service, or a running pod."""

RECORDED = "docs/kubectl.md:"
FAILURES = (
    "timed out waiting for the condition",
    'in version "monitoring.coreos.com/v1"',
    'in version "kubeflow.org/v2beta1"',
    'in version "ray.io/v1"',
    'in version "leaderworkerset.x-k8s.io/v1"',
    'in version "flux-framework.org/v1alpha2"',
    'namespaces "ingress-nginx" not found',
    'namespaces "monitoring" not found',
)
"""What a right command may end with here: no controller of ours runs, and no other project is installed."""

WALK = list(
    dict.fromkeys(
        tuple(words[1:])
        for shown in commands()
        for words in started(shown.text)
        if shown.whole and not shown.where.startswith(RECORDED)
        if words[0] == "kubectl" and not set(words) & set(TRIED_ELSEWHERE)
    )
)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plugin]:
    """The shell of an administrator in a clone, on a control plane of its own."""
    folder = tmp_path_factory.mktemp("walk")
    with ControlPlane(folder / "plane") as plane:
        yield replace(user_shell(plane.kubeconfig, "default", folder), clone=make_clone(folder))


@pytest.fixture(scope="module")
def installed(shell: Plugin) -> None:
    """deploy/ by the first page's overlay, except that no webhook is called; and objects that the texts suppose."""
    registration = ("mutatingwebhookconfiguration", REGISTRATION.rpartition("/")[2])
    uncalled = '[{"op": "remove", "path": "/webhooks"}]'
    for words in (INSTALL, ("patch", *registration, "--type=json", "-p", uncalled)):
        done = shell.run(*words)
        assert done.returncode == 0, done.stderr
    for manifest in supposed():
        done = shell.run("apply", "-f", "-", stdin=yaml.safe_dump(manifest))
        assert done.returncode == 0, done.stderr


def supposed() -> Iterator[Manifest]:
    """Yield a user's namespace, the key that a replica of the service makes, and the Jobs of the pages."""
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}}
    made = {"name": SECRET, "namespace": DEFAULT_NAMESPACE}
    yield {"apiVersion": "v1", "kind": "Secret", "metadata": made, "stringData": {"key": "0" * 32}}
    for page in PAGES:
        for fence in fences(page):
            if fence.language == "yaml" and re.search("^kind: Job$", fence.text, re.MULTILINE):
                yield from documents(fence.text)


def as_run(words: tuple[str, ...]) -> list[str]:
    """The words of a command that ends by itself, and leaves the installation as it is."""
    verb = positional(list(words))[0]
    kept = [word for word in words if word != "--watch"]
    match verb:
        case "create" | "delete":
            return [*kept, "--dry-run=server"]
        case "apply" if "-k" in words:
            return [*kept, "--dry-run=server"]
        case "rollout":
            return [*kept, "--watch=false"]
        case "wait":
            return [*kept, "--timeout=1s"]
        case _:
            return kept


def test_walk_goes_through_many_commands() -> None:
    assert tuple(INSTALL) in WALK
    assert len(WALK) > 40
    assert {positional(list(words))[0] for words in WALK} >= {
        "apply",
        "create",
        "delete",
        "describe",
        "get",
        "label",
    }


@pytest.mark.usefixtures("installed")
def test_commands_work_in_their_order(shell: Plugin) -> None:
    ended = [shell.run(*as_run(words)) for words in WALK]
    wrong = [
        (words, one.stderr)
        for words, one in zip(WALK, ended, strict=True)
        if one.returncode and not all(any(known in line for known in FAILURES) for line in told(one.stderr))
    ]
    assert not wrong, "\n".join(map(str, wrong))


def told(stderr: str) -> list[str]:
    """The lines of an error that say something."""
    return [line for line in stderr.splitlines() if line.strip() and not line.startswith("ensure CRDs")]


@pytest.mark.usefixtures("installed")
def test_wrong_command_fails(shell: Plugin) -> None:
    assert shell.run("get", "podgruops").returncode == 1
    assert shell.run("delete", "mutatingadmissionpolicy", "fluence-gates", "--dry-run=server").returncode == 1
