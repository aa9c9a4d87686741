"""The keys of explain, and the completion scripts of the shells."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path

import pytest
import yaml

from fluence_extender.apps.kubectl.explain import ExplainedReason, known_reasons, look_up
from fluence_extender.apps.kubectl.main import COMMANDS
from fluence_extender.model import coordination, names
from fluence_extender.model.keys import KEYS, Key
from fluence_extender.model.reason import ReasonCode
from tests.unit.apps.kubectl.programs import Fluence

ROOT = Path(__file__).resolve().parents[4]
SCRIPTS = sysconfig.get_path("scripts")


OTHERS = ("SELECT_PREFIX", "UNSATISFIABLE_CONDITION")
"""The names that are no keys of a pod: a prefix, and the type of a condition."""


def test_every_key_of_ours_is_explained() -> None:
    prefixes = (
        f"{names.DOMAIN}/",
        f"producer.{names.DOMAIN}/",
        names.RESOURCE_PREFIX,
        coordination.READY_GATE,
    )
    ours = {
        value
        for name, value in [*vars(names).items(), *vars(coordination).items()]
        if isinstance(value, str) and value.startswith(prefixes) and name not in OTHERS
    }
    explained = {one.key.rstrip("*") for one in KEYS}
    assert ours == explained
    for one in KEYS:
        assert one.key.rstrip("*") in one.example


@pytest.mark.parametrize(
    ("asked", "key"),
    [
        (names.GROUP_LABEL, names.GROUP_LABEL),
        ("group-size", names.GROUP_SIZE_ANNOTATION),
        ("group-size:", names.GROUP_SIZE_ANNOTATION),
        ("require-backend", names.REQUIRE_BACKEND_ANNOTATION),
        ("require-vendor", f"{names.REQUIRE_PREFIX}*"),
        (f"{names.REQUIRE_PREFIX}vendor", f"{names.REQUIRE_PREFIX}*"),
        ("coordination", coordination.COORDINATION_ANNOTATION),
        (coordination.READY_GATE, coordination.READY_GATE),
        ("backend", names.BACKEND_ANNOTATION),
        (f"producer.{names.ATTRIBUTE_PREFIX}vendor", f"{coordination.PRODUCER_ATTRIBUTE_PREFIX}*"),
        ("attr-region", f"{names.ATTRIBUTE_PREFIX}*"),
        (f"{names.RESOURCE_PREFIX}qpu", f"{names.RESOURCE_PREFIX}*"),
    ],
)
def test_keys_are_found_with_and_without_their_domain(asked: str, key: str) -> None:
    found = look_up(asked)
    assert isinstance(found, Key)
    assert found.key == key


def test_every_reason_is_explained_with_what_to_do(fluence: Fluence) -> None:
    assert {one.reason for one in known_reasons()} == set(ReasonCode)
    assert isinstance(look_up("busy"), ExplainedReason)
    shown = fluence("explain", "Busy").out
    assert shown.startswith("Busy\n")
    assert "fits this cluster, but not beside what runs now" in " ".join(shown.split())
    assert "did you mean" in fluence("explain", "Buzy").err


def test_explain_shows_one_key_or_lists_all(fluence: Fluence) -> None:
    shown = fluence("explain", "group")
    assert shown.out.startswith(f"{names.GROUP_LABEL}\n")
    assert "label on pod, written by you" in shown.out
    assert len(fluence("explain").out.splitlines()) == len(KEYS) + len(known_reasons()) + 1
    assert (
        yaml.safe_load(fluence("explain", "gang", "-o", "yaml").out)["items"][0]["kind"] == "scheduling gate"
    )
    unknown = fluence("explain", "gruop")
    assert (unknown.code, unknown.err) == (1, 'error: "gruop" is no key of ours; did you mean "group"?\n')
    assert (
        fluence("explain", "zzz").err == 'error: "zzz" is no key of ours; kubectl fluence explain lists all\n'
    )


def in_bash(line: str) -> list[str]:
    """Return what bash offers for ``line`` after it has read our script."""
    script = f"""
source <({Path(SCRIPTS) / "kubectl-fluence"} completion bash)
COMP_LINE={line!r}
read -ra COMP_WORDS <<< "$COMP_LINE"
[[ "$COMP_LINE" == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
# Outside of a completion bash has no compopt. What it asks for here is bash's own completion of files.
compopt() {{ mapfile -t COMPREPLY < <(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}"); }}
_kubectl_fluence_completion kubectl-fluence
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    ended = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return ended.stdout.split()


def test_bash_completes_kubectl_fluence_called_by_its_own_name(tmp_path: Path) -> None:
    assert in_bash("kubectl-fluence ") == list(COMMANDS)
    assert in_bash("kubectl-fluence do") == ["doctor"]
    assert in_bash("kubectl-fluence graph --j") == ["--json", "--jgf"]
    assert in_bash("kubectl-fluence completion ") == ["bash", "zsh", "fish"]
    (tmp_path / "manifest.yaml").touch()
    assert in_bash(f"kubectl-fluence apply -f {tmp_path}/man") == [f"{tmp_path}/manifest.yaml"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_that_asks_our_program(shell: str, fluence: Fluence) -> None:
    shown = fluence("completion", shell)
    assert shown.code == 0
    assert f"_KUBECTL_FLUENCE_COMPLETE={shell}_complete" in shown.out
    assert shown.out.startswith("#compdef kubectl-fluence\n") == (shell == "zsh")
    assert f"completion {shell}" in shown.out
    assert fluence("completion").code == 2
    assert fluence("completion", "tcsh").err == "error: completion for which shell? One of bash, zsh, fish\n"
