"""What the checks of ``doctor`` share: a `Finding` is a check's result, an `Examination` the access to the cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fluence_extender.apps.kubectl.errors import CommandError, KubectlFailed
from fluence_extender.apps.kubectl.program import kubectl_output
from fluence_extender.apps.kubectl.state_api import Item, StateApiClient
from fluence_extender.model.names import WEBHOOK_NAME

OK, WARNING, FAULT, UNKNOWN = "ok", "warning", "fault", "unknown"

_PATIENCE = 10.0
"""Seconds for one call of kubectl."""

_SAMPLE = re.compile(r"^(\w+)(?:\{[^}]*\})? (\S+)", re.M)
"""A line of the Prometheus text format: name, value."""

_MISSING = {
    f"mutatingwebhookconfiguration {WEBHOOK_NAME}": (
        WARNING,
        "pods are placed all the same, but those with devices don't know their backend; kubectl apply -k deploy "
        "adds it",
    ),
}
"""Kind and name of an object that an installation can do without -> status and fix if it is missing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: ``status`` is ok, warning, fault or unknown; ``fix`` is empty if there is none."""

    check: str
    status: str
    text: str
    fix: str = ""


@dataclass
class Examination:
    """Access to the cluster for the checks.

    ``namespace`` is that of the user's pods. ``cluster`` says whether the API server answers, and ``answers`` whether
    the service does; both are false until a check has found that out.
    """

    client: StateApiClient
    namespace: str = ""
    cluster: bool = False
    answers: bool = False

    @property
    def service_namespace(self) -> str:
        """The namespace in which the service is installed."""
        return self.client.service_namespace

    def kubectl(self, *words: str, body: bytes | None = None, patience: float = _PATIENCE) -> bytes:
        """Return the output of kubectl, given ``body`` on its standard input. Raise `KubectlFailed`.

        ``patience`` is in seconds.
        """
        limit = f"--request-timeout={patience:.0f}s"
        return kubectl_output([*words, *self.client.connection, limit], patience + 5, body)

    def object(self, check: str, kind: str, name: str, *words: str) -> dict[str, Any] | Finding:
        """Return an object of the cluster, or the finding that it can't be read."""
        try:
            found: dict[str, Any] = json.loads(self.kubectl("get", kind, name, *words, "-o", "json"))
        except KubectlFailed as error:
            message = str(error)
            if "(NotFound)" in message:
                status, fix = _MISSING.get(f"{kind} {name}", (FAULT, "kubectl apply -k deploy"))
                return Finding(check, status, f"there is no {kind} {name}", fix)
            return Finding(
                check, UNKNOWN, f"you may not look at {kind} {name}" if "(Forbidden)" in message else message
            )
        except ValueError:
            return Finding(check, UNKNOWN, f"kubectl gave no JSON for {kind} {name}")
        return found

    @cached_property
    def webhook(self) -> dict[str, Any] | Finding:
        """The webhook's registration, or the finding that it can't be read."""
        return self.object("webhook", "mutatingwebhookconfiguration", WEBHOOK_NAME)

    def items(self, path: str) -> list[Item] | None:
        """Return the items of a list of the service, None if it doesn't answer."""
        try:
            return self.client.items(path) if self.answers else None
        except CommandError:
            return None

    @cached_property
    def metrics(self) -> dict[str, float] | None:
        """The service's metrics, each as the sum over its labels; None if the service shows none."""
        try:
            text = self.client.text("/metrics").decode(errors="replace")
        except CommandError:
            return None
        totals: dict[str, float] = {}
        for name, value in _SAMPLE.findall(text):
            totals[name] = totals.get(name, 0) + float(value)
        return totals


Check = Callable[[Examination], Iterator[Finding]]
