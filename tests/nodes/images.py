"""Container images as archives of the OCI layout, written without any tool: a few files, or layers that exist.

What the project's own Dockerfile builds isn't made here.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
NAME = "io.containerd.image.name"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def write_layer(target: Path, files: Mapping[str, Path | str]) -> Path:
    """Write files, by their paths in the image, as a layer; text stands for itself."""
    with tarfile.open(target, "w") as archive:
        for path, source in sorted(files.items()):
            content = source.encode() if isinstance(source, str) else source.read_bytes()
            _add(archive, path, content, 0o755)
    return target


def write_image(target: Path, names: Sequence[str], layers: Sequence[Path], **config: Any) -> Path:
    """Write an image under ``names``; ``config`` is that of its containers (``Entrypoint=[...]``)."""
    document = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Env": [PATH], **config},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer) for layer in layers]},
    }
    settings = json.dumps(document).encode()
    described = [{"mediaType": LAYER, "digest": _digest(one), "size": one.stat().st_size} for one in layers]
    head = {"schemaVersion": 2, "mediaType": MANIFEST, "config": _described(CONFIG, settings)}
    manifest = json.dumps({**head, "layers": described}).encode()
    named = [_described(MANIFEST, manifest) | {"annotations": {NAME: name}} for name in names]
    index = json.dumps({"schemaVersion": 2, "manifests": named}).encode()
    with tarfile.open(target, "w") as archive:
        _add(archive, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _add(archive, "index.json", index)
        for blob in (settings, manifest):
            _add(archive, _blob(hashlib.sha256(blob).hexdigest()), blob)
        for layer in layers:
            archive.add(layer, _blob(_digest(layer).partition(":")[2]))
    return target


def _add(archive: tarfile.TarFile, path: str, content: bytes, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(path)
    info.size, info.mode = len(content), mode
    archive.addfile(info, io.BytesIO(content))


def _blob(digest: str) -> str:
    return f"blobs/sha256/{digest}"


def _described(kind: str, content: bytes) -> dict[str, Any]:
    return {
        "mediaType": kind,
        "digest": f"sha256:{hashlib.sha256(content).hexdigest()}",
        "size": len(content),
    }


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}"
