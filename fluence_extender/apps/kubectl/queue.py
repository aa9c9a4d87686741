"""``kubectl fluence queue``: show the queues and the line, hold and release gangs, move them, pause and resume queues.

What changes something is done by kubectl with the user's own rights, on the user's own objects: the service isn't asked
to do anything. It only says which object a bare name stands for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from fluence_extender.apps.kubectl.errors import CommandError, UsageError, nearest
from fluence_extender.apps.kubectl.figures import age, now, until
from fluence_extender.apps.kubectl.gang_names import GROUPS, singular
from fluence_extender.apps.kubectl.options import (
    StateApiCommand,
    all_namespaces_option,
    names_from_service,
    namespace_option,
    no_headers_option,
    output_option,
)
from fluence_extender.apps.kubectl.program import run_kubectl
from fluence_extender.apps.kubectl.tables import FORMS, TableColumn, print_items
from fluence_extender.model.names import HOLD_ANNOTATION, QUEUE_LABEL, STATE_GROUP

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from fluence_extender.apps.kubectl.state_api import StateApiClient

ACTIONS = ("list", "show", "hold", "release", "move", "pause", "resume")
ON_QUEUES = ("show", "pause", "resume")
"""The actions whose name is that of a queue; the name of the others is that of a gang."""

WORKLOADS = {
    **{kind: f"{kind}s.{GROUPS[kind]}" for kind in ("job", "jobset", "mpijob", "raycluster")},
    "podgroup": "podgroups.scheduling.k8s.io",
    "coscheduling": "podgroups.scheduling.x-k8s.io",
}
"""The conventions by which a gang has the name of an object, and the kinds of these objects."""

MOST_PODS = 200
"""Pods that one call of kubectl names."""


def _completed(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    of_queues = ctx.params.get("action") in ON_QUEUES or param.name == "queue"
    path = "/v1/queues" if of_queues else "/v1/gangs"
    return names_from_service(path, "name")(ctx, param, incomplete)


@click.command(cls=StateApiCommand)
@click.argument("action", type=click.Choice(ACTIONS), default="list")
@click.argument("name", required=False, metavar="[NAME]", shell_complete=_completed)
@click.argument("queue", required=False, metavar="[QUEUE]", shell_complete=_completed)
@output_option(*FORMS)
@namespace_option
@all_namespaces_option
@no_headers_option
@click.pass_obj
def queue(
    client: StateApiClient,
    action: str,
    name: str | None,
    queue: str | None,
    output: str | None,
    namespace: str,
    all_namespaces: bool,
    no_headers: bool,
) -> int:
    """Show the queues and the gangs in line, and act on them.

    \b
      list                  the queues, how much waits and runs in each
      show [QUEUE]          the gangs in line, with their places, and what a queue uses
      hold [KIND/]NAME      keep a gang from starting
      release [KIND/]NAME   let it start in its turn
      move [KIND/]NAME QUEUE   put it into another queue
      pause QUEUE           let nothing of a queue start
      resume QUEUE          let it work again

    KIND is that of any object of Kubernetes: job, deployment, pod. Without it, NAME is that of a gang.
    """
    _check_words(action, name, queue)
    if action == "list":
        found = client.items("/v1/queues")
        print_items("queue", found, queue_columns(), output, not no_headers, none="there are no queues")
        return 0
    if action == "show":
        where = client.namespace(namespace, all_namespaces)
        if name is not None:
            account = account_line(_demand_queue(client, name))
            if account and output in (None, "wide") and not no_headers:
                click.echo(account + "\n")
        line = client.items("/v1/queue", namespace=where, queue=name)
        nothing = "nothing waits" + (f" in namespace {where}" if where else "")
        print_items("gang", line, line_columns(where), output, not no_headers, none=nothing)
        return 0
    assert name is not None
    if action in ON_QUEUES:
        _demand_object(client, name, action)
        stop = json.dumps({"spec": {"stop": "Hold" if action == "pause" else "None"}})
        words = ["patch", f"queues.{STATE_GROUP}", name, "--type=merge", f"--patch={stop}"]
        return run_kubectl([*words, *client.connection])
    if all_namespaces:
        raise UsageError(f"{action} acts in one namespace; name it with -n NAMESPACE")
    verb, pair = _change(client, action, name, queue or "")
    where = client.namespace(namespace)
    codes = (
        run_kubectl([verb, *objects, pair, "--overwrite", f"--namespace={where}", *client.connection])
        for objects in objects_of(client, where, name)
    )
    code = next(filter(None, codes), 0)
    if action == "hold" and not code:
        for gang in _running(client, where, name):
            click.echo(
                f"gang {gang} has its places and goes on: a hold stops nothing that runs, and counts for it once it "
                "goes back in line",
                err=True,
            )
    return code


def _demand_object(client: StateApiClient, name: str, action: str) -> None:
    """Raise `CommandError` if a queue exists without an object. If the service isn't there, the API server decides."""
    try:
        found = next((one for one in client.items("/v1/queues") if one["name"] == name), None)
    except CommandError:
        return
    if found is not None and not found.get("has_object", True):
        raise CommandError(
            f"queue {name} exists without a Queue object, which would say that it is stopped, so there is nothing to "
            f"{action}; an administrator creates one: apiVersion {STATE_GROUP}/v1alpha1, kind Queue, metadata.name "
            f"{name}, with spec.stop Hold to pause it"
        )


def _running(client: StateApiClient, namespace: str, name: str) -> list[str]:
    """Return the gangs of a name that have places, none if the service isn't there."""
    try:
        gangs = client.items("/v1/gangs", namespace=namespace)
    except CommandError:
        return []
    owner = name.rpartition("/")[2]
    return [
        gang["name"]
        for gang in gangs
        if gang["name"].partition("/")[0] == owner and gang["state"] in ("committed", "bound")
    ]


def _check_words(action: str, name: str | None, queue: str | None) -> None:
    """Raise `UsageError` if an action has words that it doesn't take, or lacks one."""
    if queue is not None and action != "move":
        raise UsageError(f"{action} takes one name, not {name} and {queue}")
    if action == "list" and name is not None:
        raise UsageError(f"list takes no name; kubectl fluence queue show {name} shows the line of a queue")
    if action in _WANTED and (name is None or (action == "move" and queue is None)):
        raise UsageError(f"{action} what? kubectl fluence queue {action} {_WANTED[action]}")


def _change(client: StateApiClient, action: str, name: str, queue: str) -> tuple[str, str]:
    """Return the command of kubectl that makes the change, and what it writes."""
    if singular(name.partition("/")[0]) == "cronjob":
        raise UsageError(
            f"what is written on {name} doesn't reach the Jobs that it has made; kubectl fluence jobs lists them: "
            f"kubectl fluence queue {action} job/NAME"
        )
    if action != "move":
        return "annotate", f"{HOLD_ANNOTATION}={'true' if action == 'hold' else 'false'}"
    _demand_queue(client, queue)
    return "label", f"{QUEUE_LABEL}={queue}"


_WANTED = {
    "hold": "NAME",
    "release": "NAME",
    "move": "NAME QUEUE",
    "pause": "QUEUE",
    "resume": "QUEUE",
}


def objects_of(client: StateApiClient, namespace: str, name: str) -> list[list[str]]:
    """Return what a name stands for, as the words of calls of kubectl: an object, or the pods of a gang.

    Raise `CommandError` if there is no gang of that name.
    """
    kind, slash, rest = name.partition("/")
    if slash and kind != "gang" and kind.isalpha():
        return [[f"{kind}/{rest}"]]
    wanted = rest if kind == "gang" else name
    gangs = [one for one in client.items("/v1/gangs", namespace=namespace) if one["name"] == wanted]
    if not gangs:
        raise CommandError(
            f"no gang {wanted} in namespace {namespace}; name its object with its kind (job/{wanted}), or see "
            "kubectl fluence jobs"
        )
    gang = min(gangs, key=lambda one: bool(one["state"] != "waiting"))
    owner = WORKLOADS.get(gang["convention"])
    if owner is not None:
        return [[owner, wanted.partition("/")[0]]]
    pods = [member["pod"] for member in gang["members"]]
    return [["pods", *pods[at : at + MOST_PODS]] for at in range(0, len(pods), MOST_PODS)]


def _demand_queue(client: StateApiClient, name: str) -> Mapping[str, Any]:
    """Return the queue of that name. Raise `CommandError` if there is none."""
    found = {one["name"]: one for one in client.items("/v1/queues")}
    if name not in found:
        raise CommandError(
            f"no queue {name}; {nearest(name, list(found), 'kubectl fluence queue lists all')}"
        )
    return found[name]


def account_line(queue: Mapping[str, Any]) -> str:
    """Return in one line what a queue has of the cluster, "" if no queue has a quota or a weight."""
    if not queue["used"] and not queue["guaranteed"]:
        return ""
    words = [
        f"{field} {_amounts(queue[field]) or '-'}" for field in ("used", "borrowed", "guaranteed", "limit")
    ]
    return f"queue {queue['name']}: {'; '.join(words)}; share {queue['share']:g}"


def _amounts(found: Mapping[str, str]) -> str:
    return ",".join(f"{kind}={amount}" for kind, amount in found.items())


def queue_columns() -> tuple[TableColumn, ...]:
    """Return the columns for queues."""
    today = now()
    return (
        TableColumn("NAME", lambda one: str(one["name"])),
        TableColumn("STOP", lambda one: "" if one["stop"] == "None" else str(one["stop"])),
        TableColumn("WAITING", lambda one: str(one["waiting"])),
        TableColumn("RUNNING", lambda one: str(one["running"])),
        TableColumn("OLDEST", lambda one: age(one["oldest"], today)),
        TableColumn("FIRST", lambda one: str(one["head"])),
        TableColumn("STARTS IN", lambda one: until(one["expected_start"], today)),
        TableColumn(
            "LIMITS", lambda one: ",".join(f"{key}={most}" for key, most in one["limits"].items()), wide=True
        ),
        TableColumn("SHARE", lambda one: f"{one['share']:g}", wide=True),
        TableColumn("USED", lambda one: _amounts(one["used"]), wide=True),
        TableColumn("BORROWED", lambda one: _amounts(one["borrowed"]), wide=True),
        TableColumn("GUARANTEED", lambda one: _amounts(one["guaranteed"]), wide=True),
        TableColumn("PROBLEM", lambda one: "; ".join(one["problems"])),
    )


def line_columns(namespace: str) -> tuple[TableColumn, ...]:
    """Return the columns for gangs in line, of one namespace or of all (``""``)."""
    today = now()
    first = () if namespace else (TableColumn("NAMESPACE", lambda one: str(one["namespace"])),)
    return (
        TableColumn("POSITION", lambda one: str(one["position"])),
        *first,
        TableColumn("NAME", lambda one: str(one["name"])),
        TableColumn("QUEUE", lambda one: str(one["queue"])),
        TableColumn("USER", lambda one: str(one["user"])),
        TableColumn("PRIORITY", lambda one: str(one["priority"]), wide=True),
        TableColumn("AGE", lambda one: age(one["created"], today)),
        TableColumn("STARTS IN", lambda one: until(one["expected_start"], today)),
        TableColumn("RESERVED", lambda one: str(len(one["reserved_nodes"]) or "")),
        TableColumn("RESERVED NODES", lambda one: ", ".join(one["reserved_nodes"]), wide=True),
        TableColumn("WHY", lambda one: str(one["why"]), wide=True),
        TableColumn("REASON", lambda one: str(one["reason"])),
    )
