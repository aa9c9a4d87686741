"""Options that several commands share, with their checks and their environment variables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from fluence_extender.apps.settings import EMBEDDED_POLICIES, STANDARD
from fluence_extender.model.names import DEFAULT_NAMESPACE
from fluence_extender.model.requests import allocatable_resources
from fluence_extender.model.resources import Resources

FunctionOrCommand = TypeVar("FunctionOrCommand", bound="Callable[..., Any] | click.Command")


def setting(
    flag: str, *names: str, variable: str = "", old_variable: str = "", **more: Any
) -> Callable[[FunctionOrCommand], FunctionOrCommand]:
    """Return an option that the environment can set too: by ``variable``, else FLUENCE_API_PORT for ``--api-port``.

    ``old_variable`` is the variable by which fluence set it, which is read where the other one isn't set.
    """
    named = variable or "FLUENCE_" + flag.removeprefix("--").replace("-", "_").upper()
    variables = [named, *filter(None, [old_variable])]
    return click.option(flag, *names, envvar=variables, show_envvar=True, **more)


KUBECONFIG = setting(
    "--kubeconfig",
    metavar="FILE",
    help="How to reach the cluster; default: $KUBECONFIG, then the pod's ServiceAccount, then ~/.kube/config.",
)
RESOURCES = setting(
    "--resources",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Virtual resources (resources.yaml), followed live. Default: the ConfigMap fluence-resources.",
)
NAMESPACE = setting(
    "--resources-namespace",
    default=STANDARD.resources_namespace,
    show_default=True,
    help="Namespace of the ConfigMap fluence-resources; a missing ConfigMap means no virtual resources.",
)


def _levels(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    levels: dict[str, str] = {}
    for value in values:
        kind, equals, label = value.partition("=")
        if not equals or not kind or not label:
            raise click.BadParameter(f"{value!r} is not TYPE=LABEL, for example rack=example.com/rack")
        levels[kind] = label
    return levels


LEVELS = setting(
    "--level",
    "levels",
    multiple=True,
    metavar="TYPE=LABEL",
    default=[f"{kind}={label}" for kind, label in STANDARD.levels.items()],
    show_default=True,
    callback=_levels,
    variable="FLUENCE_LEVELS",
    help="A topology level and the node label that names it, outermost first; may be given several times.",
)

LOG_FORMAT = setting(
    "--log-format",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="How log lines look (they go to stderr).",
)
POLICY = click.option(
    "--policy",
    type=click.Choice(EMBEDDED_POLICIES),
    default=STANDARD.policy,
    show_default=True,
    help="Match policy.",
)


def object_name(_: click.Context, __: click.Parameter, value: str) -> str:
    """Return the name of an object, NAMESPACE/NAME or "", once it is checked: a callback of click."""
    namespace, slash, name = value.partition("/")
    if value and (not slash or not namespace or not name or "/" in name):
        raise click.BadParameter(f"{value!r} is not NAMESPACE/NAME, for example {DEFAULT_NAMESPACE}/fluence")
    return value


def amounts(_: click.Context, __: click.Parameter, value: str) -> Resources:
    """Return the amounts that RESOURCE=AMOUNT,... states: a callback of click."""
    stated = dict(part.strip().partition("=")[::2] for part in value.split(",") if part.strip())
    try:
        return allocatable_resources(stated)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise click.BadParameter(f"{value!r} is not RESOURCE=AMOUNT,...: {error}") from None
