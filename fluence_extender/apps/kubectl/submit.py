"""``select``, ``apply`` and ``create``: choose backends, report the choices, and print or submit the manifest."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from fluence_extender.apps.kubectl.chooser import Chooser
from fluence_extender.apps.kubectl.errors import UsageError
from fluence_extender.apps.kubectl.options import (
    SUBMISSION_FLAGS,
    Command,
    connection_words,
    fluence_ns_option,
)
from fluence_extender.apps.kubectl.pins import Resolved, resolve
from fluence_extender.apps.kubectl.program import kubectl_program, run_kubectl
from fluence_extender.apps.kubectl.sources import STDIN, file_options, joined, read_sources
from fluence_extender.apps.kubectl.terminal import DIM, GREEN, confirmed, tell, tell_note
from fluence_extender.model.names import SELECT_POLICY_ANNOTATION

QUESTION = "Apply with the selections above? [y]es / [n]o (cancel): "
DRY_RUNS = ("none", "server", "client")

_ANNOTATIONS = """\
\b
Annotations, all of them fluence.flux-framework.org/...:
  select-policy         comma-separated steps, left to right: min-ATTR, max-ATTR[:tol=N],
                        require:min_ATTR=N, require:max_ATTR=N, require:ATTR=VALUE,
                        online-only, prefer:NAME
  select-candidates     names that may be chosen
  select-constraints    min_ATTR=N, max_ATTR=N or ATTR=VALUE, in the form of require
  select-shots          shots that a task is priced for (N_SHOTS of a container, else 1000)
"""


class _ForwardingCommand(Command):
    """A command whose other flags and words go to kubectl, with everything behind ``--``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        rest = super().parse_args(ctx, args[:end])
        ctx.params["words"] = [*(ctx.params.get("words") or ()), *args[end:]]
        return rest


def _dollars(ctx: click.Context, param: click.Parameter, text: str) -> float:
    from fluence_extender.selection.backend import parse_number

    number = parse_number(text)
    if number is None or number < 0:
        raise click.BadParameter(f"{text!r} is no amount in US dollars; write e.g. --cost-tol=0.05")
    return number


def _selection_options() -> list[click.Parameter]:
    """Return the options that say what is read and how backends are chosen."""
    return [
        *file_options(),
        click.Option(
            ["--attributes"],
            type=click.Path(),
            metavar="FILE",
            multiple=True,
            help="What backends can do and cost (YAML or JSON); several files add up.",
        ),
        fluence_ns_option("Namespace of the ConfigMap fluence-resources, which says what is offered."),
        click.Option(
            ["--cost-tol"],
            metavar="USD",
            default="0",
            show_default=True,
            callback=_dollars,
            help="Costs this close to the best one count as equal.",
        ),
        click.Option(
            ["--force-select"], is_flag=True, help="Choose anew for objects that name a backend already."
        ),
    ]


@click.command(cls=Command, passes=["namespace"], params=_selection_options(), epilog=_ANNOTATIONS)
@click.pass_obj
def select(flags: Sequence[str], /, **options: Any) -> None:
    """Choose a backend for each object that asks for one, and print the manifest; nothing is applied."""
    if not options["filename"] and not options["kustomize"]:
        raise UsageError("no -f/--filename given")
    _print(_resolved(flags, tell_if_none=True, **options))


def _submission(verb: str) -> Callable[..., Any]:
    """Return the command that chooses backends and submits with ``kubectl VERB``."""

    @click.command(
        verb,
        cls=_ForwardingCommand,
        passes=SUBMISSION_FLAGS,
        params=_selection_options(),
        context_settings={"ignore_unknown_options": True},
        help=f"""\
        Choose a backend for each object that asks for one, then {verb} everything with kubectl.

        All other flags are kubectl's and are handed on to it.
        """,
        epilog=_ANNOTATIONS,
    )
    @click.option("--confirm", is_flag=True, help="Ask on the terminal before anything is applied.")
    @click.option(
        "--dry-run",
        type=click.Choice(DRY_RUNS),
        flag_value="client",
        is_flag=False,
        default="none",
        help="Print the manifest, and let kubectl try it: client (without a value), server, or none.",
    )
    @click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[KUBECTL FLAGS]")
    @click.pass_obj
    def submit(
        flags: Sequence[str], /, words: Sequence[str], dry_run: str, confirm: bool, **options: Any
    ) -> int:
        forwarded = [*([] if dry_run == "none" else [f"--dry-run={dry_run}"]), *flags, *words]
        if not options["filename"] and not options["kustomize"]:
            if all(word.startswith("-") for word in words):
                raise UsageError("no -f/--filename given")
            # kubectl create deployment ..., kubectl apply view-last-applied ...: there is no manifest.
            return run_kubectl([verb, *forwarded])
        kubectl_program()
        manifest = _resolved(flags, **options)
        if dry_run != "none":
            if not any(word.startswith("--output=") for word in flags):
                # kubectl's own output follows.
                _print(manifest if manifest.endswith(b"\n") else manifest + b"\n")
        elif confirm and not confirmed(QUESTION, STDIN in options["filename"]):
            tell("cancelled; nothing applied")
            return 0
        return run_kubectl([verb, "-f", STDIN, *forwarded], manifest)

    return submit


apply = _submission("apply")
create = _submission("create")


def _resolved(
    flags: Sequence[str],
    filename: Sequence[str],
    kustomize: str,
    recursive: bool,
    attributes: Sequence[str],
    fluence_ns: str,
    cost_tol: float,
    force_select: bool,
    tell_if_none: bool = False,
) -> bytes:
    """Return the whole manifest with its pins, after reporting what was chosen and why.

    ``tell_if_none`` says whether to report that nothing asks for a backend.
    """
    chooser = Chooser(attributes, fluence_ns, connection_words(flags), cost_tol)
    now = datetime.now(UTC)
    sources = read_sources(filename, kustomize, recursive)
    done = [resolve(source, chooser.choose, force_select, now) for source in sources]
    for one in done:
        _report(one)
    if tell_if_none and not any(one.selections or one.notes for one in done):
        tell_note(
            f"no object asks for a backend with the annotation {SELECT_POLICY_ANNOTATION}: nothing is changed"
        )
    return joined([one.content for one in done])


def _report(one: Resolved) -> None:
    for note in one.notes:
        tell_note(note)
    for label, selection in one.selections:
        for note in selection.notes:
            if not note.startswith("could not read"):
                tell_note(f"{label}: {note}")
        tell(
            f'selected backend "{selection.chosen}" for {label} (policy "{selection.request.policy}")', GREEN
        )
        for name in sorted(selection.dropped):
            tell(f"  dropped {name}: {selection.dropped[name]}", DIM)


def _print(manifest: bytes) -> None:
    sys.stdout.flush()
    # With PYTHONUNBUFFERED this is a raw stream, which may write only a part.
    rest = memoryview(manifest)
    while rest:
        rest = rest[sys.stdout.buffer.write(rest) :]
    sys.stdout.buffer.flush()
