"""Imports everything that the product imports, also inside of functions, and prints the names of it.

It is run as a program by the Python whose packages are to be tried out, which has no tests.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

PRODUCT = ("fluence_extender", "fluxion_ffi")


def imported(file: Path) -> Iterator[str]:
    """Yield the modules that a file imports, and what it takes of them as MODULE:NAME, for type checkers or not."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            yield from (f"{node.module}:{alias.name}" for alias in node.names)


def take(name: str) -> str:
    """Import what one import statement names, and return its module. Raise as that statement does."""
    module, _, attribute = name.partition(":")
    loaded = importlib.import_module(module)
    if attribute and not hasattr(loaded, attribute):
        importlib.import_module(f"{module}.{attribute}")
    return module


def main() -> None:
    """Import everything, the outermost modules first."""
    roots = [Path(str(importlib.import_module(package).__file__)).parent for package in PRODUCT]
    names = {name for root in roots for file in root.rglob("*.py") for name in imported(file)}
    print(*sorted({take(name) for name in sorted(names)}), sep="\n")


if __name__ == "__main__":
    main()
