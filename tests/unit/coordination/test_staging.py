"""The interceptor is staged onto a pod's volume, where any Python from 3.8 on can run it."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from fluence_extender.apps.sidecar.main import main
from fluence_extender.coordination.staging import HERE, HOOKS, HOOKS_GROUP, stage

STAGED = sorted(path for path in HERE.rglob("*.py") if path.name != "__init__.py")


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_interceptor_and_hooks_are_staged_and_nothing_else(tmp_path: Path) -> None:
    assert stage(tmp_path, ()) == []
    assert names(tmp_path) == sorted(
        [
            "sitecustomize.py",
            "fluence_interceptor.py",
            "hooks.txt",
            *(f"hooks/{file}" for file in HOOKS.values()),
        ]
    )
    listed = dict(line.split("\t") for line in (tmp_path / "hooks.txt").read_text().splitlines())
    assert listed == dict(HOOKS)


def test_staging_again_changes_nothing(tmp_path: Path) -> None:
    stage(tmp_path, ())
    before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    stage(tmp_path, ())
    assert before == {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}


def test_every_user_in_the_pod_may_read_the_files(tmp_path: Path) -> None:
    stage(tmp_path / "deep" / "folder", ())
    assert all(
        (tmp_path / "deep" / "folder" / name).stat().st_mode & 0o004
        for name in names(tmp_path / "deep/folder")
    )


@pytest.mark.parametrize("path", STAGED, ids=lambda path: path.name)
def test_staged_files_are_python_3_8_and_import_its_library_only(path: Path) -> None:
    tree = ast.parse(path.read_text(), str(path), feature_version=(3, 8))
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add((node.module or "").split(".")[0])
    assert imported <= set(sys.stdlib_module_names)


def test_any_python_can_read_sitecustomize() -> None:
    """No annotations, no f-strings, nothing after Python 2: an older one must get as far as passing on."""
    tree = ast.parse((HERE / "sitecustomize.py").read_text())
    assert not [
        node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr | ast.AnnAssign | ast.NamedExpr)
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            assert node.returns is None
            assert not node.args.args


def test_hooks_of_third_parties_are_copied_and_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "acme_hook.py").write_text("raise SystemExit('was run')\n")
    monkeypatch.syspath_prepend(packages)
    point = EntryPoint("acme.client", "acme_hook", HOOKS_GROUP)
    assert stage(tmp_path / "staged", [point]) == []
    assert "acme.client\tother_0.py" in (tmp_path / "staged" / "hooks.txt").read_text()
    assert "was run" in (tmp_path / "staged" / "hooks" / "other_0.py").read_text()


@pytest.mark.parametrize("value", ["no_such_module_anywhere", "math", "no_such.package", "sys"])
def test_hooks_that_are_no_python_files_are_reported_and_left_out(tmp_path: Path, value: str) -> None:
    problems = stage(tmp_path, [EntryPoint("acme.client", value, HOOKS_GROUP)])
    assert len(problems) == 1
    assert value in problems[0]
    assert "acme" not in (tmp_path / "hooks.txt").read_text()


def test_command_that_admission_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fluence_extender.apps.sidecar", "stage", str(tmp_path / "staged")]
    subprocess.run(command, check=True, capture_output=True)
    assert "sitecustomize.py" in names(tmp_path / "staged")


def test_unwritable_destination_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["stage", str(tmp_path / "file" / "below")]) == 1
    assert "can't be staged" in capsys.readouterr().err
