"""Tries commands of kubectl without a cluster.

kubectl itself reads its words: an API server that can't be reached is as far as a right command gets. What the words
name has to exist besides: files, overlays, objects, namespaces, roles, labels, containers and reasons.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

from fluence_extender.model.reason import ReasonCode
from tests.docs import objects
from tests.docs.errors import WrongCommand

NAMING = ("delete", "describe", "get", "logs", "patch", "rollout", "wait")
"""The verbs behind which objects that exist are named."""

VALUED = frozenset(
    {
        *("-n", "--namespace", "-o", "-l", "--selector", "-c", "--container", "--field-selector", "-f", "-k"),
        *("-p", "--from-file", "--from-literal", "--image", "--restart", "--raw"),
    }
)
"""The options in the texts whose value is a word of its own."""

OTHER_REASONS = frozenset({"Scheduled"})
CLOSED = "http://127.0.0.1:1"
UNREACHABLE = re.compile(r"connection refused|was refused")
UNKNOWN = re.compile(r"unknown (?:shorthand )?(?:flag|command)|invalid argument")
_LOGGED = re.compile(r"^[EIW]\d{4} .*\n", re.MULTILINE)


def tried_kubectl(words: list[str], whole: bool, folder: Path) -> None:
    """Try ``kubectl WORDS`` in ``folder``. Raise `WrongCommand`."""
    _files(words, folder)
    for problem in (*_of_objects(words), *_of_options(words)):
        raise WrongCommand(problem)
    said = asked_for(shlex.join(words), folder)
    if UNKNOWN.search(said) or (whole and said and not UNREACHABLE.search(said)):
        raise WrongCommand(said)


@cache
def asked_for(words: str, folder: Path) -> str:
    """Return what kubectl says of a command where no API server answers; "" where it needs none."""
    done = subprocess.run(
        [objects.KUBECTL, *shlex.split(words)],
        cwd=folder,
        env={**os.environ, "HOME": str(folder), "KUBECONFIG": "/dev/null", "KUBERNETES_MASTER": CLOSED},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return "" if done.returncode == 0 else _LOGGED.sub("", done.stderr).strip() or done.stderr


def _files(words: list[str], folder: Path) -> None:
    overlays = options(words, "-k", "--kustomize")
    named = [] if "logs" in words else options(words, "-f", "--filename", "--from-file")
    for path in (*named, *overlays):
        if path != "-" and not (folder / path).exists():
            raise WrongCommand(f"there is no {path}")
    for path in overlays:
        done = subprocess.run(
            [objects.KUBECTL, "kustomize", path], cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise WrongCommand(done.stderr.strip())


def _of_objects(words: list[str]) -> Iterator[str]:
    """Yield what is wrong with the objects that a command names."""
    verb, kind, *names = [*positional(words), "", ""]
    namespaces = options(words, "-n", "--namespace")
    known = objects.known()
    for named in named_objects(verb, kind, [name for name in names if name]):
        if named[0] not in objects.KINDS.values():
            yield f"{named[0]} is no kind that the texts speak of"
        elif named not in known and verb != "create":
            yield f"there is no {' '.join(named)}"
        elif known.get(named, "") not in ("", *namespaces):
            yield f"{' '.join(named)} belongs into the namespace {known[named]}"


def named_objects(verb: str, kind: str, names: list[str]) -> list[tuple[str, str]]:
    """Return the kinds and names of the objects that exist, or come to be, by a command."""
    if verb == "rollout":
        kind, names = (names or [""])[0], []
    if verb == "logs" and kind and "/" not in kind:
        kind, names = "pod", [kind]
    if "/" in kind:
        kind, _, name = kind.partition("/")
        names = [name]
    if verb == "create":
        return [
            (objects.KINDS[kind], name) for name in names[:1] if kind in objects.KINDS and kind != "secret"
        ]
    if verb not in NAMING:
        return []
    return [(objects.kind_of(one), name) for one in kind.split(",") for name in names]


def _of_options(words: list[str]) -> Iterator[str]:
    """Yield what is wrong with the names in a command's options."""
    for role in options(words, "--clusterrole"):
        if ("ClusterRole", role) not in objects.known():
            yield f"there is no ClusterRole {role}"
    for container in options(words, "-c", "--container"):
        if container not in objects.containers():
            yield f"no pod has a container {container}"
    for selector in options(words, "-l", "--selector"):
        if selector not in objects.labels():
            yield f"no pod has the label {selector}"
    for selector in options(words, "--field-selector"):
        key, _, value = selector.partition("=")
        if key == "reason" and value not in {*ReasonCode, *OTHER_REASONS}:
            yield f"no event has the reason {value}"


def positional(words: list[str]) -> list[str]:
    """Return the words that are neither options nor values of options."""
    found, waiting = [], iter(words)
    for word in waiting:
        if word == "--":
            break
        if word in VALUED:
            next(waiting, None)
        elif not word.startswith("-"):
            found.append(word)
    return found


def options(words: list[str], *names: str) -> list[str]:
    """Return the values of an option by any of its names."""
    joined = [word.partition("=")[2] for word in words if "=" in word and word.partition("=")[0] in names]
    return joined + [value for word, value in pairwise(words) if word in names]
