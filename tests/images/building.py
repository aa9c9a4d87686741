"""Builds the project's images by buildah, on a base that is made of Debian's packages alone.

Everything is kept in the user's cache, in a store of its own: the base, and the layers of each build, so that a change
of the sources costs seconds. The images of the machine's user aren't touched.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fluence_extender import __version__
from tests.localcluster.binaries import cache_folder

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "deploy" / "image"
EARLIER = "0.0.9"
EARLIER_COMMIT = "6acdf377"
"""What stands for the release before this one, as long as there is none."""

TOOLS = ("buildah", "debootstrap")
TRUST = ("/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
"""Where a machine says by which authority it reaches the package index."""

FLUXION_BASE = os.environ.get("FLUXION_BASE", "")
"""A base with libreapi_cli, where one is at hand, as buildah finds it: docker.io/NAME, oci-archive:FILE."""


def missing() -> list[str]:
    """Return what this machine lacks to build images."""
    lacking = [tool for tool in TOOLS if not shutil.which(tool)]
    return lacking if os.geteuid() == 0 else ["root", *lacking]


@dataclass(frozen=True, slots=True)
class Image:
    """An image in the store."""

    name: str

    @property
    def size(self) -> int:
        """The bytes of all its layers, uncompressed."""
        layers = json.loads(self._inspected()["Manifest"])["layers"]
        return sum(int(layer["size"]) for layer in layers)

    @property
    def config(self) -> dict[str, Any]:
        """How its containers run: ``Env``, ``User``, ``Entrypoint`` and so on."""
        found: dict[str, Any] = self._inspected()["OCIv1"]["config"]
        return found

    @property
    def number(self) -> str:
        """Its identity: the hash of all that it is."""
        return str(self._inspected()["FromImageID"])

    def write(self, target: Path, name: str) -> None:
        """Write the image as an archive that containerd imports under ``name``."""
        target.unlink(missing_ok=True)
        _run("buildah", "push", "--quiet", self.name, f"oci-archive:{target}:{name}")

    @contextmanager
    def mounted(self) -> Iterator[Path]:
        """Yield the root of a new container of the image."""
        container = _run("buildah", "from", "--pull-never", self.name)
        try:
            yield Path(_run("buildah", "mount", container))
        finally:
            _run("buildah", "rm", container)

    def _inspected(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(_run("buildah", "inspect", "--type", "image", self.name))
        return found


def extender() -> Image:
    """Return the extender's image without libreapi_cli; it is built unless the store has it as it would become."""
    return _built("fluence-extender", "--build-arg=ENGINE=embedded")


def extender_with_library() -> Image:
    """Return the extender's image on the base with libreapi_cli, as `extender` does."""
    return _built("fluence-extender-fluxion", f"--build-arg=BASE={FLUXION_BASE}")


def earlier() -> Image:
    """Return the extender's image of the release before this one, as `extender` does."""
    with tempfile.TemporaryDirectory() as folder:
        write_earlier(Path(folder))
        return _built("fluence-extender-earlier", "--build-arg=ENGINE=embedded", sources=Path(folder))


def write_earlier(folder: Path) -> None:
    """Write the sources of the release before this one into a folder, or today's if a shallow clone lacks them."""
    git = ("git", "-C", str(ROOT))
    known = subprocess.run([*git, "cat-file", "-e", EARLIER_COMMIT], capture_output=True, check=False)
    archive = folder / "sources.tar"
    _run(*git, "archive", f"--output={archive}", "HEAD" if known.returncode else EARLIER_COMMIT)
    _run("tar", "--extract", f"--file={archive}", f"--directory={folder}")
    archive.unlink()


def sidecar() -> Image:
    """Return the sidecar's image, as `extender` does."""
    return _built("fluence-sidecar", "--target=sidecar")


def base() -> Image:
    """Return the base of both: a small Debian with Python."""
    with _alone():
        return _base()


def on_base(name: str, folder: Path) -> Image:
    """Return an image of the base with the files of a folder on it; ``name`` says which files these are."""
    with _alone():
        below = _base()
        image = Image(f"localhost/{name}:{below.number[:12]}")
        if not _exists(image):
            container = _run("buildah", "from", "--pull-never", below.name)
            try:
                _run("buildah", "copy", "--quiet", container, str(folder), "/")
                _run("buildah", "commit", "--quiet", container, image.name)
            finally:
                _run("buildah", "rm", container)
    return image


def _built(name: str, *options: str, sources: Path = ROOT) -> Image:
    with _alone():
        base = _base()
        trust = [f"--volume={file}:{file}:ro" for file in TRUST if Path(file).exists()]
        bases = [f"--build-arg={argument}={base.name}" for argument in ("BASE", "SIDECAR_BASE")]
        image = Image(f"localhost/{name}:{__version__}")
        _run(str(sources / "deploy/image/build"), image.name, *trust, *bases, *options)
    return image


def _base() -> Image:
    script = SCRIPTS / "base"
    image = Image(f"localhost/debian-python:{hashlib.sha256(script.read_bytes()).hexdigest()[:12]}")
    if not _exists(image):
        _run(str(script), image.name)
    return image


def _exists(image: Image) -> bool:
    return bool(_run("buildah", "images", "--quiet", "--filter", f"reference={image.name}"))


@contextmanager
def _alone() -> Iterator[None]:
    with (_store() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@cache
def _store() -> Path:
    folder = cache_folder() / "images"
    folder.mkdir(parents=True, exist_ok=True)
    settings = f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/store"\nrunroot = "{folder}/run"\n'
    (folder / "storage.conf").write_text(settings)
    return folder


def _run(*command: str) -> str:
    """Run a command on the store, and return what it prints. Raise `RuntimeError` with the end of its output."""
    store = str(_store() / "storage.conf")
    environment = {**os.environ, "BUILDER": "buildah", "CONTAINERS_STORAGE_CONF": store}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout.strip()
