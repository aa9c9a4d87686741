"""The support bundle: all that is needed to find out what is wrong with an installation, as one file.

It has the findings, what the service says, and the objects, Events and logs of the installation.

Invariants: everything is read with the user's own rights, and nothing is changed. No Secret is read, and passwords in
addresses are left out. A part that can't be read doesn't stop the others; ``missing.txt`` names it.
"""

from __future__ import annotations

import io
import re
import tarfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from fluence_extender.apps.kubectl.doctor.snapshot import QUEUE_KINDS, ask_kubectl
from fluence_extender.apps.kubectl.errors import CommandError
from fluence_extender.apps.kubectl.state_api import StateApiClient

FILE = "fluence-support.tar.gz"
MISSING = "missing.txt"
OURS = "app.kubernetes.io/part-of=fluence-extender"
PATIENCE = 30.0
"""Seconds for one part."""

ASKED = {
    "service/gangs.json": "/v1/gangs",
    "service/queues.json": "/v1/queues",
    "service/queue.json": "/v1/queue",
    "service/reservations.json": "/v1/reservations",
    "service/nodes.json": "/v1/nodes",
    "service/backends.json": "/v1/backends",
    "service/allocations.json": "/v1/allocations",
    "service/metrics.txt": "/metrics",
}
"""Where the answers of the service are in the bundle, and their paths."""

READ = {
    "cluster/version.yaml": "version -o yaml",
    "cluster/queues.yaml": f"get {QUEUE_KINDS} -o yaml",
    "cluster/mutating.yaml": f"get mutatingadmissionpolicies,mutatingadmissionpolicybindings -l {OURS} -o yaml",
    "cluster/validating.yaml": f"get validatingadmissionpolicies,validatingadmissionpolicybindings -l {OURS} -o yaml",
    "cluster/registrations.yaml": f"get mutatingwebhookconfigurations,apiservices -l {OURS} -o yaml",
    "installation/objects.yaml": "get deployments,replicasets,pods,services,configmaps,leases,poddisruptionbudgets,"
    "networkpolicies -n {namespace} -o yaml",
    "installation/events.txt": "get events -n {namespace} --sort-by=.lastTimestamp",
    "installation/logs.txt": f"logs -n {{namespace}} -l {OURS} --all-containers --prefix --tail=5000 "
    "--max-log-requests=50",
}
"""Where the answers of kubectl are in the bundle, and its arguments."""

_PASSWORD = re.compile(rb"(://[^\s:/@]*:)[^\s@]+(?=@)")


def write_bundle(client: StateApiClient, findings: str, file: Path) -> list[str]:
    """Write the bundle to ``file``, and return what couldn't be read. Raise `CommandError` if it can't be written.

    ``findings`` are those of all checks, as text.
    """
    contents = {"findings.txt": findings.encode()}
    missing: list[str] = []
    for name, read in _parts(client):
        try:
            contents[name] = _PASSWORD.sub(rb"\1[hidden]", read())
        except CommandError as error:
            missing.append(f"{name}: {error}")
    contents[MISSING] = "".join(f"{line}\n" for line in missing).encode()
    try:
        _pack(contents, file)
    except OSError as error:
        raise CommandError(
            f"{file} can't be written: {error.strerror}; name another with --bundle=FILE"
        ) from None
    return missing


def _parts(client: StateApiClient) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield the name of each part, and what reads it; that may raise `CommandError`."""
    for name, path in ASKED.items():
        yield name, partial(client.text, path)
    for name, words in READ.items():
        yield (
            name,
            partial(ask_kubectl, client, words.format(namespace=client.service_namespace), patience=PATIENCE),
        )


def _pack(contents: dict[str, bytes], file: Path) -> None:
    with tarfile.open(file, "w:gz") as archive:
        for name, content in contents.items():
            entry = tarfile.TarInfo(f"fluence-support/{name}")
            entry.size, entry.mtime = len(content), int(time.time())
            archive.addfile(entry, io.BytesIO(content))
