"""Flags as kubectl's users write them, read by click.

kubectl reads its flags with pflag. Its conventions differ from click's in three points, which `pflag_words` translates:

* ``-f=X`` means ``-f X``;
* a switch may be given a value: ``--confirm=false``;
* a flag whose value is optional takes only a value joined with ``=``: ``--dry-run web`` is ``--dry-run=client web``.

Flags of kubectl itself are declared as well, as `PassedFlag`: only a parser that knows which of them take a value can
tell a value from a flag (``-n -f``). A command hands them on to kubectl in the form ``--name=value``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fluence_extender.apps.kubectl.errors import CommandError, UsageError
from fluence_extender.model.names import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from fluence_extender.apps.kubectl.state_api import StateApiClient

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_COMPLETION_PATIENCE = 3.0
"""Seconds that a shell waits for names."""

SERVER_VARIABLE = "FLUENCE_SERVER"
"""The environment variable that stands in for ``--server``."""

TRUE, FALSE = ("true", "t", "1"), ("false", "f", "0")

# The flags of kubectl 1.36 that say which cluster is meant and who the user is: with a value, and without.
CONNECTION_FLAGS = (
    *("as", "as-group", "as-uid", "as-user-extra", "cache-dir", "certificate-authority"),
    *("client-certificate", "client-key", "cluster", "context", "kubeconfig", "kuberc", "password"),
    *("request-timeout", "server", "tls-server-name", "token", "user", "username"),
)
CONNECTION_SWITCHES = ("disable-compression", "insecure-skip-tls-verify", "match-server-version")
# Other flags of kubectl apply and kubectl create that take a value.
SUBMISSION_FLAGS = (
    *("applyset", "field-manager", "grace-period", "log-flush-frequency", "namespace", "output"),
    *("profile", "profile-output", "prune-allowlist", "raw", "selector", "template", "timeout", "v"),
    "vmodule",
)
_SHORT = {"namespace": "-n", "output": "-o", "selector": "-l", "server": "-s", "v": "-v"}


class PassedFlag(click.Option):
    """A flag that is passed on as it is, and not explained in the help."""

    def __init__(self, flag: str, *short: str, switch: bool = False, taken: Iterable[str] = ()) -> None:
        names = [name for name in (f"--{flag}", *short) if name not in taken]
        super().__init__(
            [*names, f"passed_{flag.replace('-', '_')}"],
            hidden=True,
            is_flag=switch or None,
            multiple=not switch,
        )
        self._flag = flag

    def words(self, given: Any) -> list[str]:
        """Return the flag as words of a command line, once for each value in ``given``."""
        if self.is_flag:
            return [f"--{self._flag}"] if given else []
        # In front of the command, where nothing is translated, the value of -n=X is read as "=X".
        return [f"--{self._flag}={value.removeprefix('=')}" for value in given or ()]


def passed_flags(*flags: str, taken: Iterable[str] = ()) -> list[click.Parameter]:
    """Return options for kubectl's flags that take a value: the connection flags and ``flags``.

    Names in ``taken`` have another meaning.
    """
    return [
        PassedFlag(flag, *([_SHORT[flag]] if flag in _SHORT else ()), taken=taken)
        for flag in (*CONNECTION_FLAGS, *flags)
    ]


def take_passed_flags(ctx: click.Context) -> list[str]:
    """Remove the values of all `PassedFlag` options from the context, and return them as words."""
    return [
        word
        for param in ctx.command.params
        if isinstance(param, PassedFlag)
        for word in param.words(ctx.params.pop(param.name or "", None))
    ]


def connection_words(words: Iterable[str]) -> list[str]:
    """Return those of the words of `take_passed_flags` that say which cluster is meant and who the user is."""
    flags = (*CONNECTION_FLAGS, *CONNECTION_SWITCHES)
    return [word for word in words if word[2:].partition("=")[0] in flags]


def pflag_words(params: Sequence[click.Parameter], words: Iterable[str]) -> Iterator[str]:
    """Translate ``words``, written for pflag, to what click reads.

    Raise `UsageError` if a switch has a value that is neither true nor false.
    """
    options = [param for param in params if isinstance(param, click.Option)]
    switches = {name for option in options if option.is_flag for name in option.opts}
    optional = {
        name: option.flag_value
        for option in options
        if not option.is_flag and isinstance(option.flag_value, str)
        for name in option.opts
    }
    waiting = iter(words)
    for word in waiting:
        if word == "--":
            yield word
            yield from waiting
            return
        name, equals, value = word.partition("=")
        if word in optional:
            yield f"{word}={optional[word]}"
        elif not equals or not name.startswith("-"):
            yield word
        elif name in switches:
            if value.lower() not in (*TRUE, *FALSE):
                raise UsageError(f"{name}: {value!r} is neither true nor false")
            if value.lower() in TRUE:
                yield name
        else:
            yield word if name.startswith("--") else name + value


class Command(click.Command):
    """A command that takes flags of kubectl.

    It passes on the connection flags and those in ``passes``. When it runs, the context's object is the list of these
    flags as words.
    """

    def __init__(self, *args: Any, passes: Sequence[str] = (), **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        own = [name for param in self.params for name in param.opts]
        self.params += passed_flags(*passes, taken=own)
        self.params += [PassedFlag(flag, switch=True) for flag in CONNECTION_SWITCHES]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, list(pflag_words(self.get_params(ctx), args)))
        except click.UsageError as error:
            # The parser leaves it out, and the message names the command.
            error.ctx = error.ctx or ctx
            raise

    def invoke(self, ctx: click.Context) -> Any:
        ctx.obj = self.object_of(ctx)
        return super().invoke(ctx)

    def object_of(self, ctx: click.Context) -> object:
        """Return what the callback gets as the context's object; its parameters leave ``ctx.params``."""
        return take_passed_flags(ctx)


class StateApiCommand(Command):
    """A command that asks the service. The context's object is a `StateApiClient`.

    ``patience`` is in seconds for each answer.
    """

    def __init__(self, *args: Any, patience: float | None = None, **attributes: Any) -> None:
        own = [
            click.Option(
                ["--server"],
                metavar="URL",
                default="",
                envvar=SERVER_VARIABLE,
                show_envvar=True,
                help="Ask the service at this address, instead of through the API server.",
            ),
            fluence_ns_option("Namespace of the service."),
        ]
        super().__init__(*args, **{**attributes, "params": [*(attributes.get("params") or ()), *own]})
        self._patience = patience

    def object_of(self, ctx: click.Context) -> StateApiClient:
        return self.client(ctx, self._patience)

    def client(self, ctx: click.Context, patience: float | None = None) -> StateApiClient:
        """Return a client for the service that the flags name; ``patience`` is in seconds for each answer."""
        from fluence_extender.apps.kubectl.state_api import PATIENCE, StateApiClient

        return StateApiClient(
            server=ctx.params.pop("server", "") or "",
            service_namespace=ctx.params.pop("fluence_ns", "") or DEFAULT_NAMESPACE,
            connection=take_passed_flags(ctx),
            patience=patience or PATIENCE,
        )


def names_from_service(
    path: str, key: str
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return a function that completes names: the values of ``key`` in the items under ``path`` of the service.

    It offers nothing where the service doesn't answer at once.
    """

    def names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        assert isinstance(ctx.command, StateApiCommand)
        client = ctx.command.client(ctx, _COMPLETION_PATIENCE)
        try:
            query = {}
            if "namespace" in ctx.params:
                everywhere = bool(ctx.params.get("all_namespaces"))
                query["namespace"] = client.namespace(ctx.params["namespace"] or "", everywhere)
            found = client.items(path, **query)
        except CommandError:
            return []
        values = dict.fromkeys(str(item[key]) for item in found)
        return [CompletionItem(value) for value in values if value.startswith(incomplete)]

    return names


def fluence_ns_option(help: str) -> click.Option:
    """Return the option ``--fluence-ns``."""
    return click.Option(
        ["--fluence-ns"], metavar="NS", default=DEFAULT_NAMESPACE, show_default=True, help=help
    )


def output_option(*forms: str) -> Callable[[Decorated], Decorated]:
    """Return the decorator for ``-o``, which takes one of ``forms``."""
    return click.option("-o", "--output", type=click.Choice(forms), help="Form of the output.")


namespace_option = click.option(
    "-n",
    "--namespace",
    metavar="NS",
    default="",
    help="Namespace that is asked about.  [default: that of the kubeconfig's context]",
)
all_namespaces_option = click.option("-A", "--all-namespaces", is_flag=True, help="Ask about all namespaces.")
no_headers_option = click.option("--no-headers", is_flag=True, help="Print tables without headings.")
