"""Completion of ``kubectl fluence`` by kubectl, and of ``kubectl-fluence`` by the shell itself.

kubectl completes its plugins for bash, zsh and fish: it runs ``kubectl_complete-fluence`` with the words typed so far;
the last one is unfinished. The answer has one candidate on each line, with a description behind a tab, and then a line
with a directive of Cobra, the library behind kubectl's command line: ``:0`` lets the shell complete names of files,
``:4`` doesn't (https://github.com/spf13/cobra, "Shell completion directives"). Behind ``--flag=`` the candidates are
bare values, without the flag.

For ``kubectl-fluence``, called by its own name, click has scripts. Both ways ask the same commands for candidates.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class, shell_complete

from fluence_extender.apps.kubectl.errors import CommandError, UsageError
from fluence_extender.apps.kubectl.main import COMPLETE_VARIABLE, PROGRAM, plugin
from fluence_extender.apps.kubectl.options import Command

SHELLS = ("bash", "zsh", "fish")

_SCRIPT_NAME = "kubectl-fluence"
_FILES, _NO_FILES = 0, 4


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of ``kubectl_complete-fluence``."""
    candidates, directive = complete(list(sys.argv[1:] if argv is None else argv))
    for candidate in candidates:
        print(candidate)
    print(f":{directive}")
    return 0


def complete(words: Sequence[str]) -> tuple[list[str], int]:
    """Return the candidates for the last word, and Cobra's directive."""
    completer = ShellComplete(plugin, {}, PROGRAM, COMPLETE_VARIABLE)
    try:
        items = completer.get_completions(list(words[:-1]), words[-1] if words else "")
    except CommandError:
        return [], _NO_FILES
    candidates = [item for item in items if item.type == "plain"]
    lines = [f"{item.value}\t{item.help}" if item.help else str(item.value) for item in candidates]
    return lines, _NO_FILES if len(candidates) == len(items) else _FILES


def answer_shell(instruction: str) -> int:
    """Answer a script of click's; ``instruction`` is the value of its environment variable."""
    try:
        return shell_complete(plugin, {}, _SCRIPT_NAME, COMPLETE_VARIABLE, instruction)
    except CommandError:
        return 1


@click.command(cls=Command)
@click.argument("shell", required=False, shell_complete=lambda *_: [CompletionItem(one) for one in SHELLS])
def completion(shell: str | None) -> None:
    """Print the script that makes a shell complete kubectl-fluence: bash, zsh or fish.

    As kubectl fluence it is completed by kubectl's own completion already.

    \b
      source <(kubectl fluence completion bash)
    """
    found = get_completion_class(shell or "")
    if shell not in SHELLS or found is None:
        raise UsageError(f"completion for which shell? One of {', '.join(SHELLS)}")
    if shell == "zsh":
        # zsh looks for this in the first line when it loads a function from its fpath.
        print(f"#compdef {_SCRIPT_NAME}")
    source = "{} | source" if shell == "fish" else "source <({})"
    print(
        f"# kubectl fluence is completed by kubectl's own completion: {source.format(f'kubectl completion {shell}')}"
    )
    print(f"# This completes kubectl-fluence as well: {source.format(f'kubectl fluence completion {shell}')}")
    script = found(plugin, {}, _SCRIPT_NAME, COMPLETE_VARIABLE)
    print(script.source_template % script.source_vars(), end="")
