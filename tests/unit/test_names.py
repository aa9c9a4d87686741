"""The code has one name for one idea, and modules that can be read at once."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = sorted((ROOT / "fluence_extender").rglob("*.py"))
MODULES = [*PRODUCT, *sorted((ROOT / "fluxion_ffi").rglob("*.py"))]

LONGEST = 700
"""Lines of a module."""

NAMED_BY_OTHERS = (
    "api/gangs.py",
    "api/nodes.py",
    "api/queues.py",
    "api/values.py",
    "coordination/staged/fluence_interceptor.py",
)
"""Modules whose classes have the names of the state API, or that run alone in other people's containers."""

SCHEDULER = [path for path in PRODUCT if path.relative_to(ROOT).parts[1] in ("gangs", "queueing")]
EMPTY_NAMES, FEW_LINES = {"one", "found", "known"}, 3
"""Names that don't say what they hold, and for how many lines the scheduler's functions may use them."""

PRIVATE_WORDS = re.compile(
    r"\b(docket|agenda|prospects?|strangers?|crowds?|reckon(ed|ing|s)?|bethink|heard)\b", re.IGNORECASE
)


def relative(path: Path) -> str:
    """Return the path below the product's folder."""
    return str(path.relative_to(ROOT))


def public_classes(path: Path) -> list[str]:
    """Return the names of the public classes that a module defines."""
    tree = ast.parse(path.read_text())
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef) and node.name[0] != "_"]


def test_no_two_public_classes_share_a_name() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in PRODUCT:
        if not relative(path).endswith(NAMED_BY_OTHERS):
            for name in public_classes(path):
                homes[name].append(relative(path))
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_modules_are_short_enough_to_read(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_modules_state_what_they_are_for(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert not tree.body or ast.get_docstring(tree)


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_words_are_those_of_the_glossary(path: Path) -> None:
    lines = enumerate(path.read_text().splitlines(), 1)
    assert [f"{number}: {line.strip()}" for number, line in lines if PRIVATE_WORDS.search(line)] == []


@pytest.mark.parametrize("path", SCHEDULER, ids=relative)
def test_names_that_say_nothing_live_for_a_few_lines(path: Path) -> None:
    assert long_lived(ast.parse(path.read_text())) == []


def test_long_lived_names_are_seen() -> None:
    lines = [
        "def start(gangs):",
        "    found = gangs[0]",
        "    a = 1",
        "    b = 2",
        "    c = 3",
        "    return found",
    ]
    assert long_lived(ast.parse("\n".join(lines))) == ["found in start, line 2"]


def long_lived(tree: ast.Module) -> list[str]:
    """Return the uses of `EMPTY_NAMES` in functions that are more than `FEW_LINES` after the name was bound."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    uses: list[str] = []
    for function in functions:
        bound: dict[str, int] = {}
        for name, line, is_bound in sorted(names_in(function), key=lambda use: (use[1], not use[2])):
            if is_bound:
                bound[name] = line
            elif line - bound.get(name, line) > FEW_LINES:
                uses.append(f"{name} in {function.name}, line {bound[name]}")
    return sorted(set(uses))


def names_in(function: ast.AST) -> Iterator[tuple[str, int, bool]]:
    """Yield each of `EMPTY_NAMES` that a function uses, with its line, and whether it is bound there."""
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id in EMPTY_NAMES:
            yield node.id, node.lineno, isinstance(node.ctx, ast.Store)
        elif isinstance(node, ast.arg) and node.arg in EMPTY_NAMES:
            yield node.arg, node.lineno, True
