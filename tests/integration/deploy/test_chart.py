"""The Helm chart: with its defaults it is deploy/, and each value changes what it says and nothing else."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from fluence_extender import __version__
from tests.helm import CHART, helm, program
from tests.integration.deploy.rendered import by_name, rendered
from tests.integration.deploy.roles import Manifest, Objects

# The first test on a machine builds Helm.
pytestmark = pytest.mark.timeout(900)

SERVICE, WEBHOOK = ("Deployment", "fluence"), ("Deployment", "fluence-webhook")
POLICY = ("NetworkPolicy", "fluence")
RESOURCES = "resources: [{type: qpu, count: 2}]\n"
Changes = dict[tuple[str, str], list[tuple[str, Any, Any]]]


def templated(*arguments: str) -> str:
    """The output of ``helm template``."""
    done = helm("template", "any", str(CHART), "--include-crds", "--kube-version=1.36", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def made(*arguments: str) -> Objects:
    """The objects of the chart."""
    return by_name(filter(None, yaml.safe_load_all(templated(*arguments))))


def differences(old: Any, new: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """Where two values differ, each place with what was and what is there."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [*old, *(key for key in new if key not in old)]
        return [one for key in keys for one in differences(old.get(key), new.get(key), f"{path}/{key}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [one for number, (a, b) in pairs for one in differences(a, b, f"{path}/{number}")]
    return [] if old == new else [(path, old, new)]


@pytest.fixture(scope="module")
def defaults() -> Objects:
    """The objects with the default values."""
    return made()


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """The script that writes what follows from the schema."""
    spec = importlib.util.spec_from_file_location("chart_reference", CHART / "reference.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def changes(defaults: Objects, *arguments: str) -> Changes:
    """What ``arguments`` change in objects; they add none and remove none."""
    objects = made(*arguments)
    assert objects.keys() == defaults.keys()
    found = {key: differences(defaults[key], item) for key, item in objects.items()}
    return {key: one for key, one in found.items() if one}


def test_defaults_are_the_objects_of_kustomize(defaults: Objects, objects: Objects) -> None:
    assert defaults == objects


def test_no_object_comes_twice(deployed: Mapping[str, list[Manifest]]) -> None:
    assert len([one for one in yaml.safe_load_all(templated()) if one]) == len(deployed["deploy"])


def test_chart_has_the_version_of_the_project() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_texts_about_values_follow_from_the_schema(reference: ModuleType) -> None:
    for path, text in reference.texts().items():
        assert path.read_text() == text, f"{path}: run python deploy/helm/reference.py"


def test_make_packs_the_chart_without_its_links(project: Path, defaults: Objects, tmp_path: Path) -> None:
    shutil.copytree(project / "deploy", tmp_path / "deploy", symlinks=True)
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(project / name, tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "helm").symlink_to(program())
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    subprocess.run(["make", "--silent", "chart"], cwd=tmp_path, env=os.environ | {"PATH": path}, check=True)
    packed = tmp_path / "dist" / f"fluence-extender-{__version__}.tgz"
    done = helm("template", "any", str(packed), "--include-crds", "--kube-version=1.36")
    assert by_name(filter(None, yaml.safe_load_all(done.stdout))) == defaults
    assert "symbolic link" not in done.stderr


def test_dashboard_adds_the_objects_of_its_folder(project: Path) -> None:
    wanted = by_name(one for folder in ("deploy", "deploy/dashboard") for one in rendered(project / folder))
    assert made("--set", "dashboard=true") == wanted


def test_another_namespace_is_named_wherever_the_usual_one_was(defaults: Objects) -> None:
    there = made("--set", "namespace=batch")
    for (kind, name), item in defaults.items():
        moved = yaml.safe_load(yaml.safe_dump(item).replace("fluence-system", "batch"))
        if name.startswith("fluence-scheduler-config-"):
            # kube-scheduler's flag overrides the namespace in its file.
            moved["data"] = item["data"]
        assert there.pop((kind, moved["metadata"]["name"])) == moved
    assert not there


def test_a_namespace_that_exists_is_left_out_with_its_quota(defaults: Objects) -> None:
    without = made("--set", "createNamespace=false")
    assert defaults.keys() - without.keys() == {
        ("Namespace", "fluence-system"),
        ("ResourceQuota", "fluence-critical-pods"),
    }
    assert all(defaults[key] == item for key, item in without.items())


def test_image_is_that_of_all_containers_of_ours(defaults: Objects) -> None:
    container = "/spec/template/spec/containers"
    old = f"fluence-extender:{__version__}"
    new = f"registry.example.com/team/fluence:{__version__}"
    assert changes(defaults, "--set", "image.repository=registry.example.com/team/fluence") == {
        SERVICE: [(f"{container}/1/image", old, new)],
        WEBHOOK: [(f"{container}/0/image", old, new)],
    }
    assert changes(defaults, "--set", "image.tag=2.0") == {
        SERVICE: [(f"{container}/1/image", old, "fluence-extender:2.0")],
        WEBHOOK: [(f"{container}/0/image", old, "fluence-extender:2.0")],
    }
    secrets = ("/spec/template/spec/imagePullSecrets", None, [{"name": "one"}, {"name": "two"}])
    assert changes(defaults, "--set", "image.pullSecrets={one,two}") == {
        SERVICE: [secrets],
        WEBHOOK: [secrets],
    }


def test_scheduler_image_is_that_of_kube_scheduler(defaults: Objects) -> None:
    ((key, ((path, _, new),)),) = changes(defaults, "--set", "schedulerImage=scheduler:v1.37.1").items()
    assert (key, path, new) == (SERVICE, "/spec/template/spec/containers/0/image", "scheduler:v1.37.1")


def test_replicas_are_those_of_the_deployment(defaults: Objects) -> None:
    assert changes(defaults, "--set", "replicas=3") == {SERVICE: [("/spec/replicas", 2, 3)]}
    assert changes(defaults, "--set", "webhookReplicas=5") == {WEBHOOK: [("/spec/replicas", 2, 5)]}


def test_resources_are_those_of_the_extender(defaults: Objects) -> None:
    wanted = {"requests": {"cpu": "1", "memory": "768Mi"}}
    assert changes(defaults, "--set-json", f"resources={json.dumps(wanted)}") == {
        SERVICE: [
            ("/spec/template/spec/containers/1/resources/limits", {"memory": "2Gi"}, None),
            ("/spec/template/spec/containers/1/resources/requests/cpu", "250m", "1"),
            ("/spec/template/spec/containers/1/resources/requests/memory", "384Mi", "768Mi"),
        ]
    }


@pytest.mark.parametrize(
    ("setting", "added"),
    [
        ("engine=embedded", ["--engine=embedded"]),
        ("engine=fluxion", ["--engine=fluxion"]),
        ("arguments={--completion-limit=60,--policy=first}", ["--completion-limit=60", "--policy=first"]),
    ],
)
def test_options_are_added_to_those_of_the_service(defaults: Objects, setting: str, added: list[str]) -> None:
    ((key, ((path, old, new),)),) = changes(defaults, "--set", setting).items()
    assert (key, path) == (SERVICE, "/spec/template/spec/containers/1/args")
    assert new == [*old, *added]


@pytest.mark.parametrize(
    ("settings", "variable", "port"),
    [
        (
            ["history.url=postgresql+psycopg://fluence@db/fluence"],
            {"value": "postgresql+psycopg://fluence@db/fluence"},
            5432,
        ),
        (
            ["history.secret=account", "history.port=6000"],
            {"valueFrom": {"secretKeyRef": {"name": "account", "key": "url"}}},
            6000,
        ),
    ],
    ids=["url", "secret"],
)
def test_history_is_told_to_the_service_and_reached_by_it(
    defaults: Objects, settings: list[str], variable: Manifest, port: int
) -> None:
    found = changes(defaults, "--set", ",".join(settings))
    assert found.keys() == {SERVICE, POLICY}
    ((path, old, new),) = found[SERVICE]
    assert path == "/spec/template/spec/containers/1/env"
    assert new == [*old, {"name": "FLUENCE_HISTORY", **variable}]
    ((path, old, new),) = found[POLICY]
    assert path == "/spec/egress"
    assert new == [*old, {"ports": [{"port": port, "protocol": "TCP"}]}]


@pytest.mark.parametrize(
    ("key", "values", "wanted"),
    [
        (
            ("ConfigMap", "fluence-resources"),
            {"virtualResources": RESOURCES},
            {"data": {"resources.yaml": RESOURCES}},
        ),
        (
            ("Queue", "default"),
            {"queue": {"maxDuration": "2d", "stop": "Hold"}},
            {"spec": {"maxDuration": "2d", "stop": "Hold"}},
        ),
    ],
    ids=["virtualResources", "queue"],
)
def test_value_adds_one_object(
    defaults: Objects, key: tuple[str, str], values: Manifest, wanted: Manifest, tmp_path: Path
) -> None:
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    objects = made("--values", str(tmp_path / "values.yaml"))
    added = objects.pop(key)
    assert objects == defaults
    assert wanted.items() <= added.items()


def test_monitoring_adds_the_rules_with_the_labels_by_which_they_are_chosen(
    project: Path, defaults: Objects
) -> None:
    objects = made("--set", "monitoring.rules=true", "--set", "monitoring.labels.release=prometheus")
    added = objects.pop(("PrometheusRule", "fluence"))
    assert objects == defaults
    (shipped,) = yaml.safe_load_all((project / "deploy/monitoring/prometheusrule.yaml").read_text())
    assert differences(shipped, added) == [("/metadata/labels/release", None, "prometheus")]


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("replicas=none", "'/replicas': got string, want integer"),
        ("replicas=0", "'/replicas': minimum: got 0, want 1"),
        ("engine=quick", "'/engine': value must be one of 'auto', 'embedded', 'fluxion'"),
        ("namespace=Not_One", "'/namespace': 'Not_One' does not match pattern"),
        ("resources.request.cpu=1", "'/resources': additional properties 'request' not allowed"),
        ("replica=1", "additional properties 'replica' not allowed"),
        ("queue.maxDurations=2d", "'/queue': additional properties 'maxDurations' not allowed"),
        ("history.url=/var/lib/history.db", "'/history/url': '/var/lib/history.db' does not match pattern"),
        ("history.url=postgresql://db/a,history.secret=b", "history.url and history.secret both name"),
        ("virtualResources=qpu: 2", "virtualResources isn't a resources.yaml: it has no list 'resources'"),
    ],
)
def test_bad_value_is_refused_with_its_place_and_what_it_should_be(setting: str, told: str) -> None:
    done = helm("template", "any", str(CHART), "--kube-version=1.36", "--set", setting)
    assert done.returncode != 0
    assert told in done.stderr


def test_cluster_that_is_too_old_is_told_so() -> None:
    done = helm("template", "any", str(CHART), "--kube-version=1.35")
    assert done.returncode != 0
    assert "chart requires kubeVersion: >=1.36.0-0 which is incompatible with Kubernetes v1.35" in done.stderr


def test_schema_knows_each_value_and_its_default(defaults: Objects) -> None:
    shown = helm("show", "values", str(CHART)).stdout
    assert made("--set-json", f"image={json.dumps(yaml.safe_load(shown)['image'])}") == defaults
