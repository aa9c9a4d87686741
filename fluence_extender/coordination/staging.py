"""Copy the interceptor onto a pod's volume, where the user's Python finds it without this package.

A third party adds hooks for its own libraries by entry points of the group ``fluence_extender.hooks``. The name is the
module after whose import the hook runs; the value is the module that is the hook. That module is found and copied, not
imported. Invariant: the list of hooks is written last and in one step, so a program that starts meanwhile sees all
hooks or none.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

HOOKS_GROUP = "fluence_extender.hooks"
HERE = Path(__file__).parent / "staged"
HOOKS: Mapping[str, str] = {
    "braket.aws.aws_device": "braket_device.py",
    "botocore.client": "aws_client.py",
    "qiskit_ibm_runtime.api.rest.runtime": "qiskit_runtime.py",
    "qrmi": "qrmi_resource.py",
    "http.client": "http_endpoint.py",
}
"""The module after whose import a hook runs, and the hook's file."""


def stage(destination: Path, others: Iterable[EntryPoint] | None = None) -> list[str]:
    """Copy the interceptor and all hooks to ``destination``. Return what is wrong with third parties' hooks.

    Raises `OSError` if ``destination`` can't be written.
    """
    hooks = destination / "hooks"
    hooks.mkdir(parents=True, exist_ok=True)
    listed: list[tuple[str, str]] = []
    for module, file in HOOKS.items():
        _copy(HERE / "hooks" / file, hooks / file)
        listed.append((module, file))
    problems = []
    for number, point in enumerate(entry_points(group=HOOKS_GROUP) if others is None else others):
        source = _source(point)
        if source is None:
            problems.append(f"hook {point.name} = {point.value}: no such Python file")
            continue
        file = f"other_{number}.py"
        _copy(source, hooks / file)
        listed.append((point.name, file))
    for file in ("fluence_interceptor.py", "sitecustomize.py"):
        _copy(HERE / file, destination / file)
    draft = destination / ".hooks.txt"
    draft.write_text("".join(f"{module}\t{file}\n" for module, file in listed), encoding="utf-8")
    os.replace(draft, destination / "hooks.txt")
    return problems


def _copy(source: Path, destination: Path) -> None:
    """Copy a file so that any user of the pod's containers may read it."""
    shutil.copyfile(source, destination)
    destination.chmod(0o644)


def _source(point: EntryPoint) -> Path | None:
    try:
        spec = importlib.util.find_spec(point.module)
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return None
    found = Path(spec.origin)
    return found if found.is_file() else None
