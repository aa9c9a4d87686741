"""The pages of reference: commands, the state API, objects, keys and metrics, each made from what defines them.

They are made when the site is built, so they can't be out of date.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any

import click
import yaml
from prometheus_client import CollectorRegistry

from fluence_extender.apps.cli import main
from fluence_extender.apps.kubectl.main import COMMANDS, plugin
from fluence_extender.http.metrics import Metrics
from fluence_extender.model.keys import KEYS
from fluence_extender.webhook.metrics import WebhookMetrics
from website.api import api
from website.tables import table

ROOT = Path(__file__).resolve().parents[1]


def reference() -> dict[str, str]:
    """Return the pages, by their paths below docs/."""
    return {
        "reference/kubectl.md": plugin_commands(),
        "reference/service.md": service_commands(),
        "reference/api.md": api(),
        "reference/objects.md": objects(),
        "reference/keys.md": keys(),
        "reference/metrics.md": metrics(),
    }


def plugin_commands() -> str:
    """Return the page of ``kubectl fluence``."""
    text = [
        "# Commands of kubectl fluence\n\nWhat they are for: [kubectl fluence](../kubectl.md). "
        "Flags of kubectl that say which cluster is meant work with all of them.\n"
    ]
    with plugin.make_context("kubectl fluence", ["version"], resilient_parsing=True) as ctx:
        for name in COMMANDS:
            if (command := plugin.get_command(ctx, name)) is not None:
                text.append(_command(f"kubectl fluence {name}", command))
    return "\n".join(text)


def service_commands() -> str:
    """Return the page of ``fluence-extender``."""
    text = [
        "# Commands and options of fluence-extender\n\nThe environment can set each option that names a variable. "
        "What to set: [the service](../operations.md), [the webhook](../webhook.md).\n"
    ]
    text += [_command(f"fluence-extender {name}", command) for name, command in main.commands.items()]
    return "\n".join(text)


def _command(name: str, command: click.Command) -> str:
    ctx = click.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(ctx)])
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    explained = cleandoc((command.help or "").replace("\b\n", ""))
    rows = [_option(one) for one in options]
    return (
        f"## {name}\n\n```\n{usage}\n```\n\n{explained}\n\n"
        f"{table(('option, variable', 'default', 'meaning'), rows)}"
    )


def _option(option: click.Option) -> tuple[str, ...]:
    variables = [option.envvar] if isinstance(option.envvar, str) else option.envvar or []
    names = " ".join(f"`{one}`" for one in (*option.opts, *option.secondary_opts, *variables))
    default = option.to_info_dict()["default"]
    shown = "" if default in (None, False, "", [], ()) or callable(default) else str(default)
    choices = option.type.choices if isinstance(option.type, click.Choice) else ()
    said = f" One of {', '.join(f'`{one}`' for one in choices)}." if choices else ""
    return names, shown, (option.help or "") + said


def objects() -> str:
    """Return the page of our kinds, from their definitions in deploy/."""
    text = [
        "# Objects\n\nHow they are used: [Queues and reservations](../queues.md). "
        "A field isn't required unless the table says so.\n"
    ]
    for kind in yaml.safe_load_all((ROOT / "deploy" / "base" / "queues.yaml").read_text()):
        names, (version,) = kind["spec"]["names"], kind["spec"]["versions"]
        schema = version["schema"]["openAPIV3Schema"]
        rows = [
            (f"`{path}`", str(part.get("type", "")), _limits(part, required), part.get("description", ""))
            for path, part, required in _fields(schema, "")
        ]
        served = f"`{kind['spec']['group']}/{version['name']}`, {kind['spec']['scope'].lower()}-scoped"
        fields = table(("field", "type", "values", "meaning"), rows)
        text.append(f"## {names['kind']}\n\n{served}. {schema.get('description', '')}\n\n{fields}")
    return "\n".join(text)


def _fields(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Yield each field below ``path`` with its part of the schema, and whether it has to be there."""
    for name, part in schema.get("properties", {}).items():
        inner = f"{path}.{name}".lstrip(".")
        yield inner, part, name in schema.get("required", ())
        yield from _fields(part, inner)
        yield from _fields(part.get("items", {}), f"{inner}[]")


def _limits(part: dict[str, Any], required: bool) -> str:
    said = ["required"] if required else []
    if "enum" in part:
        said.append(" or ".join(f"`{one}`" for one in part["enum"]))
    if "default" in part:
        said.append(f"default `{part['default']}`")
    said += [
        f"{word} {part[key]}"
        for key, word in (("minimum", "at least"), ("maximum", "at most"))
        if key in part
    ]
    return ", ".join(said)


def keys() -> str:
    """Return the page of all labels, annotations, gates and resources of ours."""
    text = [
        "# Labels, annotations and resources\n\n`kubectl fluence explain KEY` prints the same in a terminal.\n"
    ]
    for one in KEYS:
        text.append(
            f"## {one.short}\n\n`{one.key}`: {one.kind} on {one.on}, written by {one.by}.\n\n{one.text}\n\n"
            + (f"    {one.example}\n" if one.example else "")
        )
    return "\n".join(text)


def metrics() -> str:
    """Return the page of the metrics."""
    return (
        "# Metrics\n\nHow Prometheus reads them: [Monitoring](../monitoring.md). "
        "Both processes have those of their process besides (`process_*`, `python_*`).\n\n"
        f"## The service\n\n{_families(Metrics().registry)}\n## The webhook\n\n{_families(WebhookMetrics().registry)}"
    )


def _families(registry: CollectorRegistry) -> str:
    suffix = {"counter": "_total", "info": "_info"}
    # What has labels has no samples before it is first counted.
    labels = {
        getattr(one, "_name", ""): getattr(one, "_labelnames", ()) for one in registry._collector_to_names
    }
    rows = [
        (
            f"`{one.name}{suffix.get(one.type, '')}`",
            one.type,
            ", ".join(f"`{label}`" for label in labels.get(one.name, ())),
            one.documentation,
        )
        for one in registry.collect()
        if one.name.startswith("fluence_")
    ]
    return table(("metric", "type", "labels", "meaning"), rows)
