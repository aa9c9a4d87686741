"""The names that the product has: keys, options, variables, metrics, paths; each from the place that defines it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import click

from fluence_extender.apps.cli import main
from fluence_extender.apps.kubectl.main import COMMANDS, plugin
from fluence_extender.apps.kubectl.options import PassedFlag
from fluence_extender.http.metrics import Metrics
from fluence_extender.http.state.app import api_app
from fluence_extender.model.keys import KEYS
from fluence_extender.model.names import UNSATISFIABLE_CONDITION
from tests.docs.reading import ROOT
from tests.unit.http.held_placements import HeldPlacements

SOURCES = (
    "fluence_extender/",
    "fluxion_ffi/",
    "deploy/",
    "benchmarks/",
    "examples/",
    ".ci/",
    "tests/localcluster/",
)
"""What the product consists of, what measures it, and the control plane that its tests run on."""

FILES = ("Makefile", "Dockerfile", "pyproject.toml")
VARIABLE = re.compile(r"\b(?:FLUENCE|FLUXION|WEBHOOK)_[A-Z_]*[A-Z]\b")


@cache
def present() -> frozenset[str]:
    """Return the files of the project, and their folders."""
    return frozenset(
        str(path.relative_to(ROOT))
        for top in ROOT.iterdir()
        if not top.name.startswith(".") or top.name in (".ci", ".github")
        for path in (top, *top.rglob("*"))
        if "__pycache__" not in path.parts
    )


@cache
def sources() -> str:
    """Return the text of the product's files."""
    return "\n".join(
        (ROOT / file).read_text(errors="replace")
        for file in sorted(present())
        if (file.startswith(SOURCES) or file in FILES) and (ROOT / file).is_file()
    )


@cache
def words() -> frozenset[str]:
    """Return the words of the product's files, those with hyphens also in parts."""
    return frozenset(re.findall(r"[A-Za-z_]\w*(?:-\w+)*", sources())) | frozenset(
        re.findall(r"[A-Za-z_]\w*", sources())
    )


def keys() -> set[str]:
    """Return all keys of ours, a prefix with its ``*``, and the names of the same form that are no keys of objects."""
    return {key.key for key in KEYS} | {UNSATISFIABLE_CONDITION}


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield the commands of both programs, each with the name of its program."""
    for name, command in main.commands.items():
        yield f"fluence-extender {name}", command
    with plugin.make_context("kubectl fluence", ["version"], resilient_parsing=True) as ctx:
        for name in COMMANDS:
            found = plugin.get_command(ctx, name)
            assert found is not None
            yield f"kubectl fluence {name}", found


def options() -> Iterator[tuple[str, click.Option]]:
    """Yield the options that commands explain, each with its command."""
    for name, command in commands():
        for param in command.params:
            if isinstance(param, click.Option) and not isinstance(param, PassedFlag):
                yield name, param


def flags() -> set[str]:
    """Return the names of all options. Options that are passed on to kubectl are among them."""
    return {
        word
        for _, command in commands()
        for param in command.params
        if isinstance(param, click.Option)
        for word in (*param.opts, *param.secondary_opts)
    } | {"--help"}


def settings() -> set[str]:
    """Return the environment variables that set options."""
    found: set[str] = set()
    for _, option in options():
        names = option.envvar
        found |= {names} if isinstance(names, str) else set(names or ())
    return found


def variables() -> set[str]:
    """Return the environment variables of ours that the product names in its own text or in its options."""
    quoted = re.findall(rf"[\"'](?:{VARIABLE.pattern})[\"']", sources())
    return {one.strip("\"'") for one in quoted} | settings()


def metrics() -> set[str]:
    """Return the names of all metrics of ours, as they are scraped."""
    webhook = (ROOT / "fluence_extender" / "webhook" / "metrics.py").read_text()
    kinds = re.findall(r'(Counter|Gauge|Histogram|Info)\(\s*"(fluence_\w+)"', webhook)
    suffix = {"Counter": "_total", "Info": "_info", "Gauge": "", "Histogram": ""}
    found = {name + suffix[kind] for kind, name in kinds}
    for family in Metrics().registry.collect():
        if family.name.startswith("fluence_"):
            found.add(family.name + {"counter": "_total", "info": "_info"}.get(family.type, ""))
    return found


def paths() -> dict[str, set[str]]:
    """Return the paths of the state API as pages write them, with their parameters."""
    document = api_app(HeldPlacements(), Metrics()).openapi()["paths"]
    return {
        re.sub(r"\{(\w+)(:path)?\}", lambda part: part[1].upper(), path): {
            parameter["name"]
            for operation in operations.values()
            for parameter in operation.get("parameters", ())
            if parameter["in"] == "query"
        }
        for path, operations in document.items()
    }
