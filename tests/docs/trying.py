"""Tries a command of the texts on the parser that would read it, as far as that goes without a cluster."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import click

from fluence_extender import __version__
from fluence_extender.apps.cli import main
from fluence_extender.apps.kubectl.errors import CommandError
from fluence_extender.apps.kubectl.main import plugin
from tests.docs.errors import WrongCommand
from tests.docs.kubectl import tried_kubectl
from tests.docs.reading import ROOT
from tests.docs.shell import started

OTHERS = frozenset(
    {
        "base64",
        "cat",
        "cp",
        "curl",
        "docker",
        "echo",
        "head",
        "helm",
        "kind",
        "mkdir",
        "oauth2-proxy",
        "rm",
        "sed",
    }
    # It passes its options on to docker or buildah.
    | {"deploy/image/build"}
)
TOOLS = frozenset({"hadolint", "lint-imports", "mypy", "ruff", "shellcheck"})
"""Programs of which only the names of files and images are looked at: those of others, and those for development."""

MADE = "dist/"
"""The folder of what make makes, which a clone doesn't have."""

PATH = re.compile(r"\w[\w.-]*(?:/[\w.-]+)+")
IMAGE = re.compile(r"(?:^|/)fluence-(?:extender|sidecar):(.+)$")

Try = Callable[[list[str], bool, Path], None]


def tried(line: str, whole: bool, folder: Path) -> None:
    """Try each program that a line of shell starts, in ``folder``. Raise `WrongCommand`.

    What isn't ``whole`` may lack words at its end.
    """
    for program, *words in started(line):
        name = program.removeprefix(".venv/bin/")
        for word in words:
            if (image := IMAGE.search(word)) and image[1] != __version__:
                raise WrongCommand(f"the version is {__version__}, not {image[1]}")
        if name in TRIED:
            TRIED[name](words, whole, folder)
        elif name in OTHERS | TOOLS:
            existing(word for word in words if PATH.fullmatch(word))
        elif (ROOT / program).is_file():
            has_options((ROOT / program).read_text(), words)
        else:
            raise WrongCommand(f"no program {program} is known")


def existing(paths: Iterable[str]) -> None:
    """Raise `WrongCommand` unless the project has or makes all ``paths``."""
    for path in paths:
        if not path.startswith(MADE) and not (ROOT / path).exists():
            raise WrongCommand(f"there is no {path}")


def has_options(text: str, words: list[str]) -> None:
    """Raise `WrongCommand` unless a program's ``text`` speaks of each option in ``words``."""
    for option in (word.partition("=")[0] for word in words if word.startswith("--")):
        if f'"{option}"' not in text and f"[{option}]" not in text:
            raise WrongCommand(f"there is no option {option}")


def _kubectl(words: list[str], whole: bool, folder: Path) -> None:
    if words[:1] == ["fluence"]:
        # What is handed on to kubectl is tried where there is a cluster.
        _click(plugin, words[1:], whole)
    else:
        tried_kubectl(words, whole, folder)


def _click(group: click.Group, words: list[str], whole: bool) -> None:
    """Have the command that ``words`` name read its own words."""
    if not words and not whole:
        return
    try:
        with group.make_context("program", list(words)) as ctx:
            left = [*ctx._protected_args, *ctx.args]
            if left or whole:
                name, command, rest = group.resolve_command(ctx, left)
                assert command is not None
                command.make_context(name, rest, parent=ctx)
    except click.exceptions.Exit:
        return
    except (click.UsageError, CommandError) as error:
        text = error.format_message() if isinstance(error, click.UsageError) else str(error)
        lacking = re.search(r"Missing |requires an argument", text)
        placeholder = isinstance(error, click.BadParameter) and re.search(r"\b[A-Z]{4,}\b", text)
        if whole or not (lacking or placeholder):
            raise WrongCommand(text) from None


def _make(words: list[str], whole: bool, folder: Path) -> None:
    """Have make say what it would run, and try that."""
    for target in (word for word in words if "=" not in word):
        if target not in _targets():
            raise WrongCommand(f"the Makefile has no target {target}")
    command = ["make", "--dry-run", "--no-print-directory", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise WrongCommand(done.stderr.strip())
    for line in done.stdout.replace("\\\n", " ").splitlines():
        if not line.startswith(("awk ", "echo ")):
            tried(line, True, folder)


@cache
def _targets() -> frozenset[str]:
    listed = re.search(r"^\.PHONY: ((?:.*\\\n)*.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert listed
    return frozenset(listed[1].replace("\\\n", " ").split())


def _python(words: list[str], whole: bool, folder: Path) -> None:
    """Look for the module or script that is named, and for a module's options in its text."""
    match words:
        case ["-m", "pytest", *rest]:
            existing(word for word in rest if word.startswith("tests/"))
        case ["-m", "pip" | "mkdocs", *_]:
            return
        case ["-m", module, *rest]:
            has_options(_source(module) + (ROOT / "benchmarks" / "report.py").read_text(), rest)
        case [script, *_] if not script.startswith("-"):
            existing([script])
        case [option]:
            subprocess.run([sys.executable, option, "-c", ""], check=True)
        case _:
            raise WrongCommand(f"python {shlex.join(words)} is of no known form")


def _source(module: str) -> str:
    for name in (f"{module}.__main__", module):
        try:
            found = find_spec(name)
        except ModuleNotFoundError:
            continue
        if found is not None and found.origin is not None:
            return Path(found.origin).read_text()
    raise WrongCommand(f"there is no module {module}")


def _no_words(words: list[str], whole: bool, folder: Path) -> None:
    if words:
        raise WrongCommand("it takes no words")


TRIED: Mapping[str, Try] = {
    "fluence-extender": lambda words, whole, _: _click(main, words, whole),
    "fluence-sidecar": _no_words,
    "kubectl": _kubectl,
    "kubectl-fluence": lambda words, whole, _: _click(plugin, words, whole),
    "make": _make,
    "pip": lambda words, _, __: existing(word for word in words[1:] if not word.startswith("-")),
    "pre-commit": lambda _, __, ___: existing([".pre-commit-config.yaml"]),
    "python": _python,
}
"""How the words of each program are tried."""
