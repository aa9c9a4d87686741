"""The pages' links lead somewhere, their documents can be read, and the first page stays one to be read."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from fluence_extender.apps.cli import main
from tests.docs.clone import NODE, make_clone
from tests.docs.objects import KUBECTL, installed_in, known, rendered
from tests.docs.reading import PAGES, ROOT, Fence, fences

FENCES = [one for page in PAGES for one in fences(page)]
FILES_OF_THE_API_SERVER = {"AdmissionConfiguration", "Config"}
"""What pages show that is no object: kube-apiserver reads it from a file."""

OBJECTS_OF_OTHER_TOOLS = {"Application"}
"""Kinds that only a cluster with another tool has (Argo CD)."""

LANGUAGES = {"", "console", "sh", "yaml", "toml", "python", "mermaid"}


def anchors(page: Path) -> set[str]:
    """What can be linked to on a page, as GitHub makes it of the headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), link
        assert not anchor or anchor in anchors(there), link


def test_link_to_a_missing_heading_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n## It's *one*: part\n")
    assert anchors(page) == {"a-page", "its-one-part"}


@pytest.mark.parametrize("fence", FENCES, ids=lambda fence: fence.where)
def test_block_can_be_read_as_what_it_is_said_to_be(fence: Fence) -> None:
    assert fence.language in LANGUAGES
    match fence.language:
        case "yaml":
            assert [*yaml.safe_load_all(fence.text)]
        case "toml":
            assert tomllib.loads(fence.text)
        case "python":
            compile(fence.text, fence.where, "exec")


def documents(fence: Fence) -> list[dict[str, object]]:
    """The mappings in a YAML block."""
    return [one for one in yaml.safe_load_all(fence.text) if isinstance(one, dict)]


OVERLAYS = [
    one
    for one in FENCES
    if one.language == "yaml" and any({"patches", "components"} & item.keys() for item in documents(one))
]
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
        if fence.language == "yaml"
        for item in documents(fence)
        if "apiVersion" in item
    }
    elsewhere = {kind for page, kind in shown if page != "docs/gangs.md"}
    assert elsewhere == FILES_OF_THE_API_SERVER | OBJECTS_OF_OTHER_TOOLS
    assert len(shown) > 8


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
        *((one.where, one.text) for one in FENCES if one.language == "yaml"),
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


def test_the_first_page_stays_one_to_be_read() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200
