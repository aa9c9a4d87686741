"""The images themselves: their sizes, and that all their programs run in them as Kubernetes starts them.

They are built for this, which takes minutes the first time. Their programs run in the images' own root folders
(chroot), as their own user and with their own environment. The extender's image is built without libreapi_cli, and
where FLUXION_BASE names a base that has it, with it too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from fluence_extender import __version__
from fluence_extender.model.names import DEFAULT_NAMESPACE
from tests.images import building
from tests.localcluster import ControlPlane
from tests.localcluster.stack import free_ports, unverified

MB = 1_000_000
LARGEST_EXTENDER = 284 * MB
LARGEST_SIDECAR = 160 * MB
PATIENCE = 120.0

pytestmark = pytest.mark.timeout(1800)


@dataclass(frozen=True)
class Running:
    """A container of an image, as far as a root folder makes one."""

    image: building.Image
    root: Path

    def command(self, *command: str) -> list[str]:
        """Return ``command``, or the image's own, as it runs in the container."""
        user, environment = self.image.config["User"], self.image.config["Env"]
        own = [*self.image.config["Entrypoint"], *(self.image.config.get("Cmd") or [])]
        # As runtimes set it for a user without an entry in /etc/passwd.
        inside = ["env", "--ignore-environment", "HOME=/", *environment, *(command or own)]
        return ["chroot", f"--userspec={user}", str(self.root), *inside]

    def run(self, *command: str, code: int = 0) -> str:
        """Run a command to its end, and return what it prints."""
        done = subprocess.run(self.command(*command), capture_output=True, text=True)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def give(self, file: Path) -> str:
        """Put a file into the container, and return its path there."""
        target = self.root / "tmp" / file.name
        shutil.copy(file, target)
        target.chmod(0o644)
        return f"/tmp/{file.name}"


def running(built: Callable[[], building.Image]) -> Iterator[Running]:
    if lacking := building.missing():
        pytest.fail(f"images can't be built here, because this machine lacks {', '.join(lacking)}")
    image = built()
    with image.mounted() as root:
        yield Running(image, root)


ENGINES = {"embedded": building.extender}
if building.FLUXION_BASE:
    ENGINES["fluxion"] = building.extender_with_library
SAID = {"embedded": "embedded, needs no native library", "fluxion": "fluxion, libreapi_cli.so"}


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """The engine of an image."""
    return str(request.param)


@pytest.fixture(scope="module")
def extender(engine: str) -> Iterator[Running]:
    """The extender's image with this engine."""
    yield from running(ENGINES[engine])


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Running]:
    """The sidecar's image."""
    yield from running(building.sidecar)


@pytest.fixture(scope="module", params=[*ENGINES.values(), building.sidecar], ids=[*ENGINES, "sidecar"])
def container(request: pytest.FixtureRequest) -> Iterator[Running]:
    """Each of the images."""
    yield from running(request.param)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """An API server with the service's namespace."""
    with ControlPlane() as plane:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": DEFAULT_NAMESPACE}}
        plane.api.create(namespace)
        yield plane


@contextmanager
def started(command: list[str], log: Path, url: str) -> Iterator[float]:
    """Run a server until the block ends; yield the seconds until it answered at ``url``."""
    begun = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        while not answers(url):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() - begun < PATIENCE, log.read_text()
            time.sleep(0.02)
        yield time.monotonic() - begun
    finally:
        process.terminate()
        process.wait()


def answers(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(url, timeout=5, context=unverified()) as answer:
        return bool(answer.status == 200)
    return False


def test_the_images_are_small(
    engine: str, extender: Running, sidecar: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        sizes = (
            f"extender ({engine}) {extender.image.size / MB:.0f} MB, sidecar {sidecar.image.size / MB:.0f} MB"
        )
        print(f"\n{sizes}")
    assert engine == "fluxion" or extender.image.size <= LARGEST_EXTENDER
    assert sidecar.image.size <= LARGEST_SIDECAR


def test_no_package_manager_of_python_is_in_an_image(container: Running) -> None:
    for module in ("pip", "setuptools"):
        assert "ModuleNotFoundError" in container.run("python3", "-c", f"import {module}", code=1)
    assert (container.root / "opt/fluence/sbom.cdx.json").stat().st_size


def test_an_image_has_the_bytecode_of_all_its_modules(container: Running) -> None:
    (site,) = container.root.glob("opt/fluence/lib/python3.*/site-packages")
    version = site.parent.name.removeprefix("python").replace(".", "")
    without = [
        str(file.relative_to(site))
        for file in site.rglob("*.py")
        if not (file.parent / "__pycache__" / f"{file.stem}.cpython-{version}.pyc").exists()
    ]
    assert without == []


def test_everything_that_the_product_imports_is_in_the_image(extender: Running) -> None:
    program = extender.give(Path(building.__file__).parent / "import_all.py")
    assert "sqlalchemy" in extender.run("python3", program).split()


def test_programs_of_the_image_start(engine: str, extender: Running) -> None:
    said = f"fluence-extender {__version__} (engine: {SAID[engine]}"
    assert extender.run("fluence-extender", "version").startswith(said)
    for command in (["kubectl-fluence"], ["fluence-extender", "demo"], ["fluence-extender", "dashboard"]):
        assert "usage:" in extender.run(*command, "--help").lower()


def test_the_service_of_the_image_gets_ready(
    extender: Running, plane: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port, api_port = free_ports(2)
    command = extender.command()
    assert command[-2:] == ["fluence-extender", "serve"]
    command += ["--kubeconfig", extender.give(plane.kubeconfig)]
    command += ["--port", str(port), "--api-port", str(api_port)]
    ready = f"http://127.0.0.1:{api_port}/readyz"
    with started(command, tmp_path / "serve.log", ready) as seconds, capsys.disabled():
        print(f"\nready after {seconds:.2f} s, load {os.getloadavg()[0]:.1f}")
        with urllib.request.urlopen(f"http://127.0.0.1:{api_port}/v1/gangs", timeout=30) as answer:
            assert answer.status == 200


def test_the_webhook_of_the_image_gets_ready(extender: Running, plane: ControlPlane, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    command = extender.command("fluence-extender", "webhook")
    command += ["--kubeconfig", extender.give(plane.kubeconfig), "--port", str(port)]
    command += ["--url", f"https://127.0.0.1:{port}/mutate"]
    with started(command, tmp_path / "webhook.log", f"https://127.0.0.1:{port}/readyz"):
        pass


def test_the_sidecar_asks_for_its_pod(sidecar: Running) -> None:
    assert sidecar.command()[-1] == "fluence-sidecar"
    assert "fluence-sidecar: " in sidecar.run("fluence-sidecar", code=2)


def test_an_image_stages_the_interceptor(container: Running) -> None:
    container.run("python3", "-m", "fluence_extender.apps.sidecar", "stage", "/tmp/staged")
    assert any((container.root / "tmp/staged").rglob("*.py"))


def test_an_image_serves_a_mock_backend(sidecar: Running, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    command = sidecar.command("python3", "-m", "fluence_extender.apps.sidecar", "mock-qpu")
    command += ["--host", "127.0.0.1", "--port", str(port)]
    with started(command, tmp_path / "mock.log", f"http://127.0.0.1:{port}/tasks"):
        pass
