"""The documents that pages and examples show are accepted: overlays are built, and keys of manifests have an effect."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from fluence_extender.apps.cli import main
from fluence_extender.objects.queues import read_queue
from tests.docs.clone import NODE, make_clone
from tests.docs.objects import KUBECTL, installed_in, known, rendered
from tests.docs.reading import PAGES, ROOT, Fence, fences

FENCES = [one for page in PAGES for one in fences(page) if one.language == "yaml"]
OBJECTS_OF_OTHER_TOOLS = {"Application", "ResourceClaimTemplate"}
"""Kinds that only a cluster with another tool has: Argo CD, or the driver of a device."""


def documents(fence: Fence) -> list[dict[str, object]]:
    """The mappings in a YAML block."""
    return [one for one in yaml.safe_load_all(fence.text) if isinstance(one, dict)]


OVERLAYS = [one for one in FENCES if any({"patches", "components"} & item.keys() for item in documents(one))]
BASE = "resources: [../fluence-extender/deploy]\n"


@pytest.mark.parametrize("fence", OVERLAYS, ids=lambda fence: fence.where)
def test_overlay_can_be_built_and_adds_nothing(fence: Fence, tmp_path: Path) -> None:
    """What a page shows without resources is a part of the first page's overlay."""
    make_clone(tmp_path)
    whole = any("resources" in item for item in documents(fence))
    overlay = tmp_path / "fluence"
    (overlay / "kustomization.yaml").write_text(fence.text if whole else BASE + fence.text)
    command = [KUBECTL, "kustomize", str(overlay)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    built = [*yaml.safe_load_all(text)]
    assert 0 < len(built) <= len(rendered("deploy"))
    assert any(one not in built for one in rendered("deploy"))


def test_objects_of_pages_are_those_that_are_run_as_examples() -> None:
    shown = {
        (fence.where.partition(":")[0], item["kind"])
        for fence in FENCES
        for item in documents(fence)
        if "apiVersion" in item
    }
    run = ("docs/gangs.md", "docs/migrating.md", "docs/queues.md", "docs/slurm.md")
    elsewhere = {kind for page, kind in shown if page not in run}
    assert elsewhere == OBJECTS_OF_OTHER_TOOLS
    assert len(shown) > 8


QUEUES = [
    pytest.param(item, id=f"{fence.where} {item['metadata']}")
    for fence in FENCES
    for item in documents(fence)
    if item.get("kind") == "Queue"
]


@pytest.mark.parametrize("item", QUEUES)
def test_queue_of_a_page_is_read_in_full(item: dict[str, object]) -> None:
    assert read_queue(json.dumps(item).encode()).problems == ()


def test_page_on_migrating_shows_a_queue_in_place_of_kueues() -> None:
    assert any("docs/migrating.md" in str(one.id) for one in QUEUES)


def test_objects_of_ours_are_named_with_their_namespace() -> None:
    found = [
        (one[3] or one[0], one[2] or one[1])
        for page in PAGES
        for one in re.findall(
            r"\b(fluence[\w-]*)\.([a-z-]+)\.svc\b|`([a-z-]+)/(fluence[\w-]*)`", page.read_text()
        )
    ]
    assert len(found) > 3
    assert {namespace for _, namespace in found} == {installed_in()}
    assert {name for name, _ in found} <= {name for _, name in known()}


MANIFESTS = [
    pytest.param(text, id=where)
    for where, text in (
        *((one.where, one.text) for one in FENCES),
        *(
            (str(file.relative_to(ROOT)), file.read_text())
            for file in sorted((ROOT / "examples").rglob("*.yaml"))
        ),
    )
    if all("kind" in document for document in yaml.safe_load_all(text) if isinstance(document, dict))
    and "schedulerName" in text
    and "kind: RayCluster" not in text
]
"""The manifests of pages and examples whose pods can be told without a cluster."""


@pytest.mark.parametrize("text", MANIFESTS)
def test_keys_of_a_manifest_have_an_effect(text: str, tmp_path: Path) -> None:
    assert "does nothing" not in simulated(text, tmp_path)


def test_key_without_effect_is_found(tmp_path: Path) -> None:
    wrong = (ROOT / "examples" / "02-gang-by-label.yaml").read_text().replace("/group-size", "/gruop-size")
    assert "gruop-size does nothing: did you mean" in simulated(wrong, tmp_path)


def simulated(text: str, folder: Path) -> str:
    """What ``fluence-extender simulate`` says of manifests on one large node."""
    file, nodes = folder / "manifests.yaml", folder / "nodes.json"
    file.write_text(text)
    nodes.write_text(json.dumps(NODE))
    ended = CliRunner().invoke(main, ["simulate", "-f", str(file), "--nodes", str(nodes)])
    assert ended.exit_code in (0, 3), ended.output
    return ended.output
