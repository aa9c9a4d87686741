"""The Dockerfile, as far as it can be judged without building: its instructions against the project's files."""

from __future__ import annotations

import fnmatch
import json
import re
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


def test_both_stages_stand_on_the_flux_sched_image_unless_told_otherwise(
    stages: list[list[Instruction]],
) -> None:
    before, build, final = stages
    assert values(before, "ARG") == ["BASE=fluxrm/flux-sched:noble"]
    assert values(build, "FROM") == ["${BASE} AS build"]
    assert values(final, "FROM") == ["${BASE}"]


def test_nothing_is_added_from_a_url(stages: list[list[Instruction]]) -> None:
    for stage in stages:
        assert not values(stage, "ADD")
        assert not any("curl" in command or "wget" in command for command in values(stage, "RUN"))


def copied(stages: list[list[Instruction]]) -> list[str]:
    _, build, final = stages
    sources = [source for line in values(build, "COPY") for source in line.split()[:-1]]
    assert values(final, "COPY") == ["--from=build /opt/fluence /opt/fluence"]
    return sources


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
    assert needed == set(copied(stages))


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


def test_the_build_fails_unless_the_real_library_loads(stages: list[list[Instruction]]) -> None:
    (check,) = values(stages[-1], "RUN")
    program = json.loads(check)
    assert program[:2] == ["python3", "-c"]
    compile(program[2], "Dockerfile", "exec")
    assert "fluxion_ffi.open_library()" in program[2]
