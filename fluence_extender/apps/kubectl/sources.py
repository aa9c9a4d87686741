"""Read manifests, as bytes: from files, directories, patterns, URLs, standard input and kustomizations."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any

import click

from fluence_extender.apps.kubectl.errors import CommandError, KubectlFailed, UsageError

STDIN = "-"
DEEPEST = 200
"""Levels of lists and maps in a document."""

SUFFIXES = (".json", ".yaml", ".yml")
_PATIENCE = 30.0
"""Seconds for a URL."""

_KUSTOMIZE_PATIENCE = 120.0
"""Seconds for a kustomization, which may fetch its bases."""


@dataclass(frozen=True, slots=True)
class ManifestSource:
    """The content of one file; ``name`` is its name in messages."""

    name: str
    content: bytes


def file_options() -> list[click.Parameter]:
    """Return the options that name manifests: ``filename``, ``kustomize`` and ``recursive``."""
    return [
        click.Option(
            ["-f", "--filename"],
            type=click.Path(),
            metavar="FILE",
            multiple=True,
            help="File, directory, URL, or - for standard input; may be given several times.",
        ),
        click.Option(
            ["-k", "--kustomize"],
            type=click.Path(file_okay=False),
            metavar="DIR",
            default="",
            help="What `kubectl kustomize DIR` makes.",
        ),
        click.Option(
            ["-R", "--recursive"], is_flag=True, help="Read directories with everything below them."
        ),
    ]


def read_sources(filenames: Sequence[str], kustomize: str, recursive: bool) -> list[ManifestSource]:
    """Return everything that ``-f`` and ``-k`` name, in order. Raise `CommandError`.

    As with kubectl, one ``-f`` may name several files, separated by commas.
    """
    files = [name for text in filenames for name in text.split(",") if name]
    if kustomize and files:
        raise UsageError("-f and -k can't be given together; choose one")
    if files.count(STDIN) > 1:
        raise UsageError("standard input can be read once; give -f - once")
    if kustomize:
        return [_kustomized(kustomize)]
    return [source for name in files for source in _read(name, recursive)]


def joined(contents: Sequence[bytes]) -> bytes:
    """Return several sources as one stream; a single source stays as it is."""
    if len(contents) == 1:
        return contents[0]
    stream = bytearray()
    for content in contents:
        content = content.removeprefix(b"\xef\xbb\xbf")
        if stream and not stream.endswith(b"\n"):
            stream += b"\n"
        stream += content if content.startswith(b"---") else b"---\n" + content
    return bytes(stream)


def documents(
    text: str, name: str, line: int = 1, loader: Any = None, most_values: float = math.inf
) -> list[Any]:
    """Return the values of all documents in YAML or JSON, which begins on ``line`` of the file ``name``.

    ``loader`` is a loader of PyYAML. Raise `CommandError`, also for more than ``most_values`` values.
    """
    from fluence_extender.model.yaml_nodes import TooDeep, UnreadableYaml, load_documents

    try:
        return load_documents(text, DEEPEST, loader, most_values)
    except TooDeep as error:
        raise CommandError(f"{name}: {error}; make it flatter") from None
    except UnreadableYaml as error:
        place = f"{name}:{line + error.line - 1}" if error.line else name
        raise CommandError(f"{place}: isn't valid YAML: {error}; correct the syntax there") from None


def text_of(source: ManifestSource) -> str:
    """Return the content as text. Raise `CommandError`."""
    try:
        return source.content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CommandError(f"{source.name}: isn't UTF-8 text ({error.reason}); save it as UTF-8") from None


def manifests_as_json(sources: Sequence[ManifestSource], most_values: float = math.inf) -> bytes:
    """Return the objects in YAML or JSON as one JSON array.

    Raise `CommandError`, also for a source of YAML with more than ``most_values`` values.
    """
    import msgspec

    found: list[msgspec.Raw] = []
    for source in sources:
        if source.content.lstrip().startswith(b"{"):
            try:
                found.append(msgspec.json.decode(source.content, type=msgspec.Raw))
                continue
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                # It may be several objects one after the other, or YAML in braces.
                pass
        for one in documents(text_of(source).removeprefix("\ufeff"), source.name, most_values=most_values):
            if one is None:
                continue
            try:
                found.append(msgspec.Raw(msgspec.json.encode(one, enc_hook=str)))
            except (TypeError, ValueError, OverflowError, RecursionError) as error:
                raise CommandError(f"{source.name}: can't be written as JSON: {error}; change it") from None
    return msgspec.json.encode(found)


def _read(name: str, recursive: bool) -> Iterator[ManifestSource]:
    if name == STDIN:
        yield ManifestSource("standard input", sys.stdin.buffer.read())
    elif name.startswith(("http://", "https://")):
        yield ManifestSource(name, _fetched(name))
    else:
        path = Path(name)
        matches = [path] if path.exists() else [Path(one) for one in sorted(glob(name))]
        if not matches:
            raise CommandError(f"{name} doesn't exist; -f takes a file, a directory, a URL or -")
        for match in matches:
            yield from _files(match, recursive)


def _files(path: Path, recursive: bool) -> Iterator[ManifestSource]:
    if not path.is_dir():
        yield ManifestSource(str(path), _content(path))
        return
    found = sorted(path.rglob("*") if recursive else path.iterdir())
    files = [one for one in found if one.suffix in SUFFIXES and one.is_file()]
    if not files:
        raise CommandError(
            f"{path} has no file that ends in {', '.join(SUFFIXES)}"
            + ("" if recursive else "; -R looks below it as well")
        )
    for one in files:
        yield ManifestSource(str(one), _content(one))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CommandError(f"{path} can't be read: {error.strerror}") from None


def _fetched(url: str) -> bytes:
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    from fluence_extender.apps.kubectl.terminal import waiting

    try:
        with (
            waiting(f"reading {url}"),
            urlopen(Request(url, headers={"Accept": "*/*"}), timeout=_PATIENCE) as response,
        ):
            content: bytes = response.read()
    except HTTPError as error:
        raise CommandError(f"{url} can't be read: HTTP {error.code} {error.reason}") from None
    except (OSError, ValueError, HTTPException) as error:
        why = error.reason if isinstance(error, URLError) else error
        raise CommandError(f"{url} can't be read: {why}") from None
    return content


def _kustomized(folder: str) -> ManifestSource:
    from fluence_extender.apps.kubectl.program import kubectl_output
    from fluence_extender.apps.kubectl.terminal import waiting

    try:
        with waiting(f"building {folder}"):
            return ManifestSource(folder, kubectl_output(["kustomize", folder], _KUSTOMIZE_PATIENCE))
    except KubectlFailed as error:
        raise CommandError(f"kustomization {folder} can't be built: {error}") from None
