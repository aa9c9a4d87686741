"""deploy/dashboard: a process without any right or credential of its own, held against the command that it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fluence_extender import __version__
from fluence_extender.apps.cli.dashboard import dashboard
from tests.integration.deploy.rendered import by_name, rendered
from tests.integration.deploy.roles import bound_to

Manifest = dict[str, Any]
Objects = dict[tuple[str, str], Manifest]
NAME = "fluence-dashboard"


@pytest.fixture(scope="module")
def board(project: Path) -> Objects:
    return by_name(rendered(project / "deploy" / "dashboard"))


def pod(board: Objects) -> Manifest:
    return dict(board["Deployment", NAME]["spec"]["template"]["spec"])


def test_it_consists_of_four_objects_in_the_namespace_of_the_service(board: Objects) -> None:
    kinds = ("Deployment", "NetworkPolicy", "Service", "ServiceAccount")
    assert set(board) == {(kind, NAME) for kind in kinds}
    assert {one["metadata"]["namespace"] for one in board.values()} == {"fluence-system"}


def test_it_has_no_right_and_no_token(board: Objects, objects: Objects) -> None:
    assert bound_to(objects, NAME) == set()
    assert pod(board)["automountServiceAccountToken"] is False
    assert board["ServiceAccount", NAME]["automountServiceAccountToken"] is False
    (volume,) = pod(board)["volumes"]
    assert volume["configMap"] == {"name": "kube-root-ca.crt"}


def test_its_arguments_are_options_of_the_command(board: Objects) -> None:
    (container,) = pod(board)["containers"]
    assert container["image"] == f"fluence-extender:{__version__}"
    name, *arguments = container["args"]
    assert name == dashboard.name
    parameters = dashboard.make_context(name, arguments).params
    (mount,) = container["volumeMounts"]
    assert parameters["certificate_authority"] == Path(mount["mountPath"]) / "ca.crt"
    assert container["ports"] == [{"name": "http", "containerPort": parameters["port"], "protocol": "TCP"}]
    assert parameters["host"] == "0.0.0.0"


def test_only_labelled_namespaces_reach_it_and_it_reaches_what_the_service_reaches(
    board: Objects, objects: Objects
) -> None:
    spec = board["NetworkPolicy", NAME]["spec"]
    (rule,) = spec["ingress"]
    label = {"fluence.flux-framework.org/dashboard-access": "true"}
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": label}}]
    assert spec["egress"] == objects["NetworkPolicy", "fluence"]["spec"]["egress"]
    assert spec["podSelector"]["matchLabels"].items() <= (
        board["Deployment", NAME]["spec"]["template"]["metadata"]["labels"].items()
    )
    assert board["Service", NAME]["spec"]["selector"] == spec["podSelector"]["matchLabels"]
