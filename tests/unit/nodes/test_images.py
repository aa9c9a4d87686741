"""Images that are written without any tool."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.nodes.images import NAME, write_image, write_layer


@pytest.fixture
def image(tmp_path: Path) -> Iterator[tarfile.TarFile]:
    """An image of one program, with two names."""
    layer = write_layer(tmp_path / "layer", {"bin/hello": "#!/bin/sh\necho hello\n"})
    target = write_image(tmp_path / "image.tar", ["one:1", "two:2"], [layer], Entrypoint=["/bin/hello"])
    with tarfile.open(target) as archive:
        yield archive


def read(image: tarfile.TarFile, path: str) -> bytes:
    file = image.extractfile(path)
    assert file
    return file.read()


def blob(image: tarfile.TarFile, descriptor: dict[str, Any]) -> bytes:
    """The content of a descriptor, which says its length and its hash."""
    kind, _, digest = descriptor["digest"].partition(":")
    content = read(image, f"blobs/{kind}/{digest}")
    assert (hashlib.sha256(content).hexdigest(), len(content)) == (digest, descriptor["size"])
    return content


def test_every_content_has_the_length_and_the_hash_that_is_said_of_it(image: tarfile.TarFile) -> None:
    index = json.loads(read(image, "index.json"))
    assert [one["annotations"][NAME] for one in index["manifests"]] == ["one:1", "two:2"]
    manifest = json.loads(blob(image, index["manifests"][0]))
    config = json.loads(blob(image, manifest["config"]))
    assert config["config"]["Entrypoint"] == ["/bin/hello"]
    (layer,) = (blob(image, one) for one in manifest["layers"])
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]


def test_program_in_a_layer_can_be_run(tmp_path: Path) -> None:
    with tarfile.open(write_layer(tmp_path / "layer", {"bin/hello": "text"})) as layer:
        (member,) = layer.getmembers()
    assert (member.name, member.mode, member.size) == ("bin/hello", 0o755, 4)
