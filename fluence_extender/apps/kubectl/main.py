"""Entry point of ``kubectl-fluence``: which commands there are, and how each of them ends.

A command's module is imported only when the command runs, so that no command pays for another one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import click

from fluence_extender import __version__
from fluence_extender.apps.kubectl.errors import CommandError, UsageError
from fluence_extender.apps.kubectl.options import (
    SUBMISSION_FLAGS,
    Command,
    PassedFlag,
    output_option,
    passed_flags,
    take_passed_flags,
)
from fluence_extender.apps.kubectl.terminal import tell_error

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

PROGRAM = "kubectl fluence"
COMPLETE_VARIABLE = "_KUBECTL_FLUENCE_COMPLETE"
"""The environment variable in which click's completion scripts say what they ask."""

_PACKAGE = "fluence_extender.apps.kubectl"

COMMANDS = {
    "apply": ("submit:apply", "Choose a backend for what asks for one, then kubectl apply"),
    "create": ("submit:create", "The same with kubectl create"),
    "select": ("submit:select", "Choose, and print the manifest instead of applying it"),
    "jobs": ("jobs:jobs", "The gangs, where each stands and why"),
    "queue": ("queue:queue", "The queues and the line; hold, release, move, pause, resume"),
    "usage": ("usage:usage", "Who used how much, by queue, user, namespace or account"),
    "history": ("history:history", "What ran, when, where, and how it ended"),
    "why": ("why:why", "Why a pod, a Job or a gang waits, and what would fit"),
    "graph": ("graph:graph", "The cluster as a tree with what is held and free"),
    "backends": ("backends:backends", "The virtual devices, what is free, who holds the rest"),
    "top": ("top:top", "Which nodes are full, which gangs hold the most"),
    "simulate": ("simulate:simulate", "Would these manifests fit, where, if not why"),
    "dashboard": ("fluence_extender.dashboard.command:dashboard", "All of this as pages in your browser"),
    "doctor": ("doctor.command:doctor", "Checks the installation and says what to do"),
    "explain": ("explain:explain", "What a label, an annotation or a reason of ours means"),
    "completion": ("completion:completion", "Make a shell complete kubectl-fluence"),
    "version": ("main:version", "Print the version"),
    "help": ("main:show_help", "Explain a command"),
}
"""Name -> module and function, summary. A module outside this package is named in full."""

_SYNONYMS = {
    "gang": "jobs",
    "gangs": "jobs",
    "nodes": "top",
    "queues": "queue",
    "hold": "queue",
    "release": "queue",
}
"""What other tools call the commands."""


class UnknownCommand(UsageError):
    """There is no command of that name."""

    def __init__(self, name: str) -> None:
        from difflib import get_close_matches

        close = [_SYNONYMS[name]] if name in _SYNONYMS else get_close_matches(name, COMMANDS, n=1)
        super().__init__(f'unknown command "{name}"' + (f'; did you mean "{close[0]}"?' if close else ""))


class _Plugin(click.Group):
    """The program. Flags in front of the command belong to the command: kubectl's users write them there."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, function = COMMANDS[cmd_name][0].partition(":")
        whole = module if module.startswith("fluence_extender.") else f"{_PACKAGE}.{module}"
        command: click.Command = getattr(import_module(whole), function)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command behind the flags. Raise `UnknownCommand` if there is none."""
        flags = take_passed_flags(ctx)
        at = next((index for index, word in enumerate(args) if not word.startswith("-")), 0)
        command = self.get_command(ctx, args[at])
        if command is None:
            raise UnknownCommand(args[at])
        return args[at], command, [*flags, *args[:at], *args[at + 1 :]]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(overview())

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return command_names(ctx, None, incomplete)


def command_names(ctx: click.Context, param: click.Parameter | None, incomplete: str) -> list[CompletionItem]:
    """Return the names of commands that begin with ``incomplete``."""
    from click.shell_completion import CompletionItem

    return [
        CompletionItem(name, help=summary)
        for name, (_, summary) in COMMANDS.items()
        if name.startswith(incomplete)
    ]


plugin = _Plugin(
    "fluence",
    params=[
        *passed_flags(*SUBMISSION_FLAGS),
        PassedFlag("filename", "-f"),
        PassedFlag("kustomize", "-k"),
        *(PassedFlag(flag) for flag in ("attributes", "fluence-ns", "cost-tol")),
    ],
    context_settings={
        "help_option_names": ["-h", "--help"],
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
        "max_content_width": 110,
    },
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; ``argv`` are the words after ``kubectl fluence``."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except UnknownCommand as error:
        tell_error(str(error))
        print(overview(), end="", file=sys.stderr)
        return error.code
    except CommandError as error:
        tell_error(str(error))
        return error.code
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx is not None else PROGRAM
        tell_error(f"{error.format_message().rstrip('.')} (see {where} --help)")
        return error.exit_code
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except BrokenPipeError:
        # The reader of our output has closed it. Without this, Python would report that when it closes the stream.
        sys.stdout = None
        return 141
    except KeyboardInterrupt:
        return 130


def _run(words: list[str]) -> int:
    if COMPLETE_VARIABLE in os.environ:
        from fluence_extender.apps.kubectl.completion import answer_shell

        return answer_shell(os.environ[COMPLETE_VARIABLE])
    if not words:
        print(overview(), end="", file=sys.stderr)
        return 2
    if words == ["--version"]:
        words = ["version"]
    with plugin.make_context(PROGRAM, words) as ctx:
        code: int | None = plugin.invoke(ctx)
        return code or 0


def overview() -> str:
    """Return what ``kubectl fluence --help`` shows."""
    width = max(map(len, COMMANDS)) + 3
    return "\n".join(
        [
            "Choose a backend for your jobs, ask why they wait, see the cluster.",
            "",
            "Usage:",
            "  kubectl fluence COMMAND [flags]",
            "",
            "Commands:",
            *(f"  {name:<{width}}{summary}" for name, (_, summary) in COMMANDS.items()),
            "",
            "kubectl fluence COMMAND --help explains one of them.",
            "",
        ]
    )


@click.command(cls=Command, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@output_option("json", "yaml")
def version(output: str | None) -> None:
    """Print the version of this program. That of the service is among what doctor shows."""
    if output:
        from fluence_extender.apps.kubectl.tables import print_document

        print_document({"version": __version__}, output)
        return
    print(f"kubectl-fluence {__version__}")


@click.command("help")
@click.argument("command", required=False, shell_complete=command_names)
@click.pass_context
def show_help(ctx: click.Context, command: str | None) -> None:
    """Explain a command."""
    assert ctx.parent is not None
    if command is None:
        print(overview(), end="")
        return
    found = plugin.get_command(ctx.parent, command)
    if found is None:
        raise UnknownCommand(command)
    print(found.get_help(click.Context(found, parent=ctx.parent, info_name=command)))


if __name__ == "__main__":
    sys.exit(main())
