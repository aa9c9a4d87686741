"""The programs are taken from KUBEBUILDER_ASSETS or the cache; what is missing is built there once and completely."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from tests.localcluster import recipe
from tests.localcluster.binaries import cache_folder, ensure_binaries, locate
from tests.localcluster.build import read_record
from tests.localcluster.errors import BuildFailed
from tests.localcluster.recipe import COMPONENTS, LEFT_OUT

EVICTION = "k8s.io/kubernetes/pkg/kubelet/eviction"

FAKE_GO = """#!/bin/sh
if [ "$1" = env ]; then echo go1.26.1; exit; fi
echo "$@" >> {calls}
test -f go.mod && test -f go.sum && test -f main.go || exit 9
if [ "$1" = mod ]; then {vendor}; exit; fi
if [ "$1" = list ]; then echo runtime; echo k8s.io/api; echo fluence-extender.local/controlplane; exit; fi
echo runtime >&2
{then}
echo fluence-extender.local/controlplane >&2
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\n' > "$2"
chmod +x "$2"
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, no assets, and a go that writes down how it was called and builds at once."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    fake_go(tmp_path)
    return tmp_path / "calls"


def fake_go(folder: Path, then: str = "") -> None:
    path = folder / "bin" / "go"
    path.parent.mkdir(exist_ok=True)
    path.write_text(FAKE_GO.format(calls=folder / "calls", vendor=VENDOR, then=then))
    path.chmod(0o755)


# What `go mod vendor` copies, as far as the build changes it.
VENDOR = "\n".join(
    f"mkdir -p vendor/{PurePosixPath(path).parent} && touch vendor/{path}"
    for path in (*LEFT_OUT, f"{EVICTION}/helpers.go", f"{EVICTION}/types.go")
)


def builds(calls: Path) -> list[str]:
    return [line for line in calls.read_text().splitlines() if line.startswith("build ")]


def test_key_names_version_platform_and_content() -> None:
    content = recipe.sources()
    key = recipe.key(content, "linux", "x86_64")
    assert key.startswith("kubernetes-v1.36.3-linux-x86_64-")
    assert key == recipe.key(recipe.sources(), "linux", "x86_64")
    assert key != recipe.key(content, "linux", "aarch64")


@pytest.mark.parametrize(
    "name", ["main.go", "kubelets.go", "steps.go", "go.mod", "go.sum", f"instead/{EVICTION}/eviction.go"]
)
def test_key_follows_each_source(name: str) -> None:
    content = recipe.sources()
    assert recipe.key({**content, name: content[name] + b"\n"}) != recipe.key(content)


def test_key_follows_the_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    before = recipe.key(recipe.sources())
    monkeypatch.setattr(recipe, "FLAGS", recipe.FLAGS[:-1])
    assert recipe.key(recipe.sources()) != before


@pytest.mark.parametrize(
    ("path", "version"),
    [
        ("k8s.io/kubernetes", recipe.KUBERNETES_VERSION),
        ("go.etcd.io/etcd/server/v3", recipe.ETCD_VERSION),
    ],
)
def test_modules_are_pinned_in_the_named_versions(path: str, version: str) -> None:
    assert f"\t{path} {version}" in recipe.sources()["go.mod"].decode().splitlines()


def test_program_is_each_component() -> None:
    main = recipe.sources()["main.go"].decode()
    assert all(f'case "{component}":' in main for component in COMPONENTS)


def test_server_is_stamped_with_its_version() -> None:
    (flags,) = (flag for flag in recipe.FLAGS if flag.startswith("-ldflags="))
    assert "-X k8s.io/component-base/version.gitVersion=v1.36.3" in flags
    assert "-X k8s.io/component-base/version.gitMinor=36" in flags


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"XDG_CACHE_HOME": "/xdg", "HOME": "/home/me"}, "/xdg/fluence-extender"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/home/me"}, "/home/me/.cache/fluence-extender"),
        ({"XDG_CACHE_HOME": "", "HOME": "/home/me"}, "/home/me/.cache/fluence-extender"),
    ],
)
def test_cache_folder_follows_the_xdg_rules(environ: dict[str, str], folder: str) -> None:
    assert cache_folder(environ) == Path(folder)


def test_programs_in_the_assets_folder_are_preferred(tmp_path: Path) -> None:
    asset = tmp_path / "etcd"
    asset.touch(0o755)
    (tmp_path / "kubelets").touch(0o644)
    environ = {"KUBEBUILDER_ASSETS": str(tmp_path)}
    found = {component: locate(component, Path("/built"), environ) for component in COMPONENTS}
    assert found.pop("etcd") == asset
    assert {path.parent for path in found.values()} == {Path("/built")}


def test_nothing_is_built_if_the_assets_folder_has_all_programs(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for component in COMPONENTS:
        (tmp_path / component).touch(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert ensure_binaries() == {component: tmp_path / component for component in COMPONENTS}
    assert not calls.exists()


def test_all_programs_are_one_that_is_built_once_without_touching_the_pins(
    calls: Path, tmp_path: Path
) -> None:
    first = ensure_binaries()
    assert set(first) == set(COMPONENTS)
    assert all(tmp_path / "cache" in path.parents and path.stat().st_mode & 0o100 for path in first.values())
    assert len({path.resolve() for path in first.values()}) == 1
    (line,) = builds(calls)
    assert line.startswith("build -v -mod=vendor -trimpath -gcflags=all=-dwarf=false -ldflags=-s -w -X ")
    assert ensure_binaries() == first
    assert builds(calls) == [line]


def test_modules_lose_what_is_left_out_and_take_what_stands_instead(calls: Path, tmp_path: Path) -> None:
    fake_go(tmp_path, f"cd vendor; find . -name '*.go' > {tmp_path}/left; cp -r . {tmp_path}/vendor; cd ..")
    ensure_binaries()
    assert (tmp_path / "left").read_text().split() == [f"./{EVICTION}/eviction.go"]
    ours = recipe.sources()[f"instead/{EVICTION}/eviction.go"]
    assert (tmp_path / "vendor" / EVICTION / "eviction.go").read_bytes() == ours


def test_lost_link_is_made_again_without_a_build(calls: Path) -> None:
    ensure_binaries()["etcd"].unlink()
    assert ensure_binaries()["etcd"].is_file()
    assert len(builds(calls)) == 1


def test_failed_build_shows_the_output_of_go_and_leaves_no_partial_file(calls: Path, tmp_path: Path) -> None:
    fake_go(tmp_path, "seq 40 >&2; echo no space left on device >&2; exit 7")
    with pytest.raises(BuildFailed) as failed:
        ensure_binaries()
    first, *lines = str(failed.value).splitlines()
    assert first.startswith("building the control plane failed: go build ended with 7 (")
    assert lines == [*map(str, range(12, 41)), "no space left on device"]
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.name != "lock"]


def test_modules_that_cannot_be_had_fail_the_build(calls: Path, tmp_path: Path) -> None:
    (tmp_path / "bin" / "go").write_text(
        '#!/bin/sh\n[ "$1" = env ] && echo go1.26.1 && exit\necho dial tcp: no route to host >&2\nexit 1\n'
    )
    with pytest.raises(BuildFailed, match=r"go mod ended with 1 \((.|\n)*\ndial tcp: no route to host$"):
        ensure_binaries()


def test_go_that_was_killed_while_it_compiled_is_said_to_have_been(calls: Path, tmp_path: Path) -> None:
    fake_go(tmp_path, "kill -9 $$")
    with pytest.raises(
        BuildFailed, match=r"go build was ended by signal 9 \(Killed; .*; it printed no error$"
    ):
        ensure_binaries()


def test_build_says_what_it_builds_and_how_long_that_took_last_time(
    calls: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ensure_binaries()["etcd"].resolve().unlink()
    (title,) = (
        line for line in capsys.readouterr().err.splitlines() if line.endswith("...") and "building" in line
    )
    assert title == "building the control plane (Kubernetes v1.36.3, etcd v3.6.16) ..."
    record = tmp_path / "cache" / "fluence-extender" / "controlplane" / "last-build.json"
    record.write_text('{"packages": 2530, "seconds": 312.4}')
    ensure_binaries()["etcd"].resolve().unlink()
    assert (
        "(Kubernetes v1.36.3, etcd v3.6.16); last time: 2530 packages in 5 min 12 s ..."
        in capsys.readouterr().err
    )
    written = read_record(record)
    assert written
    assert written.packages == 1
    record.write_text("{")
    ensure_binaries()
    assert "last time" not in capsys.readouterr().err


def test_progress_counts_packages_until_the_program_is_linked(
    calls: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.localcluster.progress.LINE_SECONDS", 0.0)
    fake_go(tmp_path, "echo k8s.io/api >&2")
    ensure_binaries()
    lines = [line.partition("): ")[2] for line in capsys.readouterr().err.splitlines()]
    assert [line for line in lines if line and "done" not in line] == [
        "1 of at most 3 packages compiled, 0 s",
        "2 of at most 3 packages compiled, 0 s",
        "linking, 0 s",
    ]


ENSURE = """
from tests.localcluster.binaries import ensure_binaries
import json
print(json.dumps({name: str(path) for name, path in ensure_binaries().items()}))
"""


def test_two_processes_build_once(calls: Path, tmp_path: Path) -> None:
    fake_go(tmp_path, "sleep 0.1")
    both = [
        subprocess.Popen([sys.executable, "-c", ENSURE], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    answers = [json.loads(process.communicate()[0]) for process in both]
    assert answers[0] == answers[1]
    assert len(builds(calls)) == 1
