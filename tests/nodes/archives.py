"""The images that the nodes have, each as an archive: our own, and stand-ins for those that no registry gives the rig.

Our own image is what the Dockerfile makes on a small Debian: without the native library, or with it if FLUXION_BASE
names a base that has it. The kube-scheduler of deploy/ is named by its digest, so what the rig has under that name is
its own kube-scheduler. All that busybox and python have to do in the examples the small Debian does; its pip knows the
stand-ins of the vendors' SDKs and no index.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from pathlib import Path

import pip

from fluence_extender import __version__
from tests.e2e.sdks import SDKS, wheel
from tests.images import building
from tests.localcluster import ensure_binaries
from tests.nodes import programs
from tests.nodes.images import write_image, write_layer
from tests.nodes.store import PAUSE

DEPLOY = Path(__file__).parents[2] / "deploy"
SCHEDULER = re.compile(r"image: (\S+/kube-scheduler):\S+(@\S+)")
IMAGES = "images"
"""The folder of the archives, which has no others."""

LIBRARY = "docker.io/library/"
"""Where containerd looks for images whose names have no registry."""


def archives(home: Path) -> list[Path]:
    """Return the archives of all images; those that are missing, or not of these sources, are made below ``home``."""
    at = home / IMAGES
    at.mkdir(exist_ok=True)
    ours = building.extender_with_library() if building.FLUXION_BASE else building.extender()
    made = [
        written(at, ours, f"fluence-extender:{__version__}"),
        written(at, building.earlier(), f"fluence-extender:{building.EARLIER}"),
        written(at, building.base(), "busybox:1.37"),
        written(at, python(), "python:3.12-slim"),
        of_program(at, PAUSE, "pause", programs.pause()),
        of_program(at, scheduler_name(), "kube-scheduler", ensure_binaries()["kube-scheduler"]),
    ]
    for former in set(at.iterdir()) - set(made):
        former.unlink()
    return made


def written(at: Path, image: building.Image, name: str) -> Path:
    """Return the archive of an image under another name."""
    target = at / f"{name.replace(':', '-')}-{image.number[:12]}.tar"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=at) as scratch:
            made = Path(scratch, "image.tar")
            image.write(made, f"{LIBRARY}{name}")
            made.rename(target)
    return target


def of_program(at: Path, name: str, program: str, path: Path) -> Path:
    """Return the archive of an image that has one static program, and is named so."""
    stat = path.stat()
    target = at / f"{program}-{stat.st_size}-{stat.st_mtime_ns}.tar"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=at) as scratch:
            layer = write_layer(Path(scratch, "layer.tar"), {f"usr/local/bin/{program}": path})
            made = write_image(Path(scratch, "image.tar"), [name], [layer], Entrypoint=[program])
            made.rename(target)
    return target


def scheduler_name() -> str:
    """Return the name of kube-scheduler's image as containerd has it: with its digest, without its tag."""
    found = SCHEDULER.search((DEPLOY / "base" / "deployment.yaml").read_text())
    assert found
    return found[1] + found[2]


def python() -> building.Image:
    """Return the image of Python with pip, whose only source of packages are the stand-ins of the vendors' SDKs."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(pip.__file__).parent, root / "usr/lib/python3/dist-packages/pip", ignore=without)
        for folder in ("wheels", "etc", "usr/local/bin"):
            (root / folder).mkdir(parents=True)
        for name in SDKS:
            wheel(name, root / "wheels")
        (root / "etc/pip.conf").write_text("[global]\nno-index = true\nfind-links = /wheels\n")
        program = root / "usr/local/bin/pip"
        program.write_text('#!/bin/sh\nexec python3 -m pip "$@"\n')
        program.chmod(0o755)
        said = hashlib.sha256(repr((SDKS, pip.__version__)).encode()).hexdigest()
        return building.on_base(f"python-of-the-examples-{said[:12]}", root)
