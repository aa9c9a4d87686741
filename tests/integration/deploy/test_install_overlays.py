"""Overlays over deploy/: the one the first page has an administrator write, and those of other pages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from fluence_extender import __version__
from tests.integration.deploy.rendered import by_name, kubectl, rendered

Manifest = dict[str, Any]
Objects = dict[tuple[str, str], Manifest]


def objects_of(folder: Path) -> Objects:
    return by_name(rendered(folder))


def images(objects: Objects) -> set[str]:
    """The images of all containers of ours, by Deployment."""
    return {
        container["image"]
        for (kind, _), item in objects.items()
        if kind == "Deployment"
        for container in item["spec"]["template"]["spec"]["containers"]
        if "fluence" in container["image"]
    }


def test_the_overlay_of_the_first_page_names_the_image_and_changes_nothing_else(
    project: Path, objects: Objects, tmp_path: Path
) -> None:
    found = re.search(r"<<'END'\n(.*?)\nEND\n", (project / "README.md").read_text(), re.DOTALL)
    assert found
    (tmp_path / "fluence-extender").mkdir()
    shutil.copytree(project / "deploy", tmp_path / "fluence-extender" / "deploy")
    overlay = tmp_path / "fluence"
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text(found[1])
    theirs = objects_of(overlay)
    assert images(theirs) == {f"registry.example.com/fluence-extender:{__version__}"}
    assert {key for key in objects if theirs[key] != objects[key]} == {
        ("Deployment", "fluence"),
        ("Deployment", "fluence-webhook"),
    }
    assert theirs.keys() == objects.keys()


def test_overlays_of_the_page_on_security_restrict_and_widen_both_policies(
    project: Path, objects: Objects, tmp_path: Path
) -> None:
    shutil.copytree(project / "deploy", tmp_path / "deploy")
    page = (project / "docs" / "security.md").read_text()
    patches = re.findall(r"```yaml\n(patches:.*?)```", page, re.DOTALL)
    rules = []
    for number, patch in enumerate(patches):
        overlay = tmp_path / str(number)
        overlay.mkdir()
        (overlay / "kustomization.yaml").write_text(f"resources: [../deploy]\n{patch}")
        made = objects_of(overlay)
        changed = {key for key in objects if made[key] != objects[key]}
        assert changed == {("NetworkPolicy", "fluence"), ("NetworkPolicy", "fluence-webhook")}
        rules.append([made[key]["spec"]["egress"] for key in sorted(changed)])
    (first, *_), (second, *_) = rules
    assert all(one == other for one, other in rules)
    assert [peer["ipBlock"]["cidr"].endswith("/32") for peer in first[0]["to"]] == [True, True]
    assert [port["port"] for port in second[0]["ports"]] == [443, 6443, 16443]
    assert "to" not in second[0]


def test_one_file_has_the_objects_with_the_image_that_is_named(
    project: Path, objects: Objects, tmp_path: Path
) -> None:
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(project / name, tmp_path)
    (tmp_path / "deploy").symlink_to(project / "deploy")
    environment = os.environ | {"PATH": f"{Path(kubectl()).parent}:{os.environ['PATH']}"}
    image = f"registry.example.com/fluence-extender:{__version__}"
    subprocess.run(["make", "manifests", f"IMAGE={image}"], cwd=tmp_path, env=environment, check=True)
    text = (tmp_path / "dist" / "install.yaml").read_text()
    theirs = by_name(filter(None, yaml.safe_load_all(text)))
    assert images(theirs) == {image}
    assert theirs.keys() == objects.keys()
    assert {key for key in objects if theirs[key] != objects[key]} == {
        ("Deployment", "fluence"),
        ("Deployment", "fluence-webhook"),
    }
