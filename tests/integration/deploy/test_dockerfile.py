"""The Dockerfile, as far as it can be judged without building: its instructions against the project's files."""

from __future__ import annotations

import fnmatch
import importlib.metadata
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from click.testing import CliRunner

from fluence_extender.apps.cli import main


class Instruction(NamedTuple):
    """One instruction with its continuation lines joined."""

    word: str
    arguments: str


@pytest.fixture(scope="module")
def stages(project: Path) -> list[list[Instruction]]:
    """The instructions from each FROM to the next."""
    lines = [line for line in (project / "Dockerfile").read_text().splitlines() if not line.startswith("#")]
    logical = re.sub(r"\\\n", " ", "\n".join(lines)).split("\n")
    instructions = [Instruction(*line.split(None, 1)) for line in logical if line.strip()]
    stages: list[list[Instruction]] = [[]]
    for instruction in instructions:
        if instruction.word == "FROM":
            stages.append([])
        stages[-1].append(instruction)
    return stages


def values(stage: list[Instruction], word: str) -> list[str]:
    return [instruction.arguments for instruction in stage if instruction.word == word]


def test_the_extender_stands_on_the_flux_sched_image_and_the_sidecar_on_a_small_one(
    stages: list[list[Instruction]],
) -> None:
    before, *built = stages
    base, sidecar_base = values(before, "ARG")
    assert base == "BASE=fluxrm/flux-sched:noble"
    assert re.fullmatch(r"SIDECAR_BASE=debian:trixie-slim@sha256:[0-9a-f]{64}", sidecar_base)
    assert [values(stage, "FROM") for stage in built] == [
        ["${BASE} AS build"],
        ["${SIDECAR_BASE} AS sidecar-build"],
        ["${SIDECAR_BASE} AS sidecar"],
        ["${BASE}"],
    ]


def test_nothing_is_added_from_a_url(stages: list[list[Instruction]]) -> None:
    for stage in stages:
        assert not values(stage, "ADD")
        assert not any("curl" in command or "wget" in command for command in values(stage, "RUN"))


def copied(stages: list[list[Instruction]]) -> list[str]:
    _, build, _, sidecar, final = stages
    assert values(sidecar, "COPY") == ["--from=sidecar-build /opt/fluence /opt/fluence"]
    assert values(final, "COPY") == ["--from=build /opt/fluence /opt/fluence"]
    return [source for line in values(build, "COPY") for source in line.split()[:-1]]


def test_every_copied_file_is_there_and_not_ignored(stages: list[list[Instruction]], project: Path) -> None:
    rules = [
        line
        for line in (project / ".dockerignore").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    for source in copied(stages):
        assert (project / source).exists(), source
        ignored = False
        for rule in rules:
            if fnmatch.fnmatch(source, rule.removeprefix("!")):
                ignored = not rule.startswith("!")
        assert not ignored, source


def test_all_that_the_wheel_needs_is_copied(stages: list[list[Instruction]], project: Path) -> None:
    described = tomllib.loads((project / "pyproject.toml").read_text())
    about, wheel = described["project"], described["tool"]["hatch"]["build"]["targets"]["wheel"]
    parts = {*wheel["packages"], *wheel.get("force-include", {})}
    needed = {"pyproject.toml", about["readme"], *about["license-files"], *parts}
    assert needed == set(copied(stages)) - {"requirements", "deploy/image/install"}


def test_packages_are_installed_by_the_script_that_checks_their_hashes(
    stages: list[list[Instruction]], project: Path
) -> None:
    script = (project / "deploy" / "image" / "install").read_text()
    assert re.search(r'^locked=".*--require-hashes --only-binary :all:"$', script, re.MULTILINE)
    for line in re.findall(r"^ +\"\$TOOLS/bin/pip\".* install .*$", script, re.MULTILINE):
        assert "$locked" in line or "--no-index" in line, line
    for stage in stages:
        assert not any("pip install" in command for command in values(stage, "RUN"))


def test_what_is_copied_into_an_image_was_made_without_pip(project: Path) -> None:
    script = (project / "deploy" / "image" / "install").read_text()
    assert 'python3 -m venv --without-pip "$TARGET"' in script


def test_the_list_of_packages_names_each_with_version_and_purl(project: Path, tmp_path: Path) -> None:
    file = tmp_path / "sbom.cdx.json"
    places = {"TOOLS": sys.prefix, "TARGET": sys.prefix, "SBOM": str(file)}
    subprocess.run([project / "deploy" / "image" / "install", "sbom"], env=os.environ | places, check=True)
    listed = json.loads(file.read_text())
    assert (listed["bomFormat"], listed["specVersion"]) == ("CycloneDX", "1.6")
    found = {
        component["name"]: (component["version"], component.get("purl")) for component in listed["components"]
    }
    for name in ("aiohttp", "cffi", "kubernetes"):
        version = importlib.metadata.version(name)
        assert found[name] == (version, f"pkg:pypi/{name}@{version}")
    assert {entry["ref"] for entry in listed["dependencies"]} >= {
        component["bom-ref"] for component in listed["components"]
    }


def test_the_sidecar_runs_as_a_numbered_user_and_loads_when_it_is_built(
    stages: list[list[Instruction]],
) -> None:
    sidecar = stages[-2]
    assert values(sidecar, "USER") == ["65532:65532"]
    assert json.loads(values(sidecar, "ENTRYPOINT")[0]) == ["fluence-sidecar"]
    *_, check = values(sidecar, "RUN")
    assert json.loads(check)[-1] == "import fluence_extender.apps.sidecar.running"


def test_it_runs_the_service_as_a_numbered_user_that_is_not_root(
    stages: list[list[Instruction]], project: Path
) -> None:
    final = stages[-1]
    assert values(final, "USER") == ["65532:65532"]
    assert json.loads(values(final, "ENTRYPOINT")[0]) == ["fluence-extender"]
    assert json.loads(values(final, "CMD")[0]) == ["serve"]
    assert CliRunner().invoke(main, ["serve", "--help"]).exit_code == 0
    deployment = yaml.safe_load((project / "deploy" / "base" / "deployment.yaml").read_text())
    pod = deployment["spec"]["template"]["spec"]
    assert f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" == "65532:65532"


def test_the_build_fails_unless_the_engine_that_is_asked_for_loads(
    stages: list[list[Instruction]],
) -> None:
    final = stages[-1]
    assert values(final, "ARG") == ["ENGINE=fluxion"]
    (check,) = values(final, "RUN")
    program = shlex.split(check.replace("${ENGINE}", "fluxion"))
    assert program[:2] == ["python3", "-c"]
    without = {**os.environ, "FLUXION_LIBRARY": "/nowhere/libreapi_cli.so"}
    embedded = [sys.executable, "-c", program[2].replace("fluxion", "embedded")]
    assert (
        "embedded" in subprocess.run(embedded, env=without, check=True, capture_output=True, text=True).stdout
    )
    missing = subprocess.run([sys.executable, "-c", program[2]], env=without, capture_output=True, text=True)
    assert missing.returncode != 0
    assert "EngineUnavailable" in missing.stderr
