"""The settings of operators. The command line checks each value once, at the edge."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fluence_extender.graph.containment import LEVELS
from fluence_extender.model.names import DEFAULT_NAMESPACE
from fluence_extender.model.resources import NOTHING, Resources

ENGINES = ("auto", "fluxion", "embedded")
EMBEDDED_POLICIES = ("lonode", "hinode", "lonodex", "hinodex", "spread")
"""The policies that need no library."""

POLICIES = (*EMBEDDED_POLICIES, "first", "firstnodex", "high", "low", "locality", "variation")
BINDERS = ("direct", "kube-scheduler")
DEFAULT_LEASE_DURATION = 15
"""Seconds; kube-scheduler's own default."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one extender; the environment can set each of them too (see ``serve --help``).

    ``resources`` is a local resources.yaml, None for the ConfigMap in ``resources_namespace``. ``levels`` maps topology
    levels, outermost first, to the node labels that name them. ``bind_by`` says who binds pods about which their node
    alone decides: ``direct`` for this service. ``lease`` is the Lease (NAMESPACE/NAME) that elects the kube-scheduler
    in the same pod, "" for a single replica; ``identity`` is the host name under which kube-scheduler holds it.
    ``scheduler_livez`` is that kube-scheduler's health endpoint, "" for none. The two limits are in seconds, None for
    no limit; ``grow_after`` and ``audit_every`` are in seconds too. ``largest_node`` is what the largest node has that
    autoscalers add. ``api_service`` is the Service (NAMESPACE/NAME) by which clients call the state API with TLS, ""
    for plain HTTP on loopback. ``history`` is the file or the URL of the database that keeps the account of past work,
    "" for none; ``history_keep`` is in days, 0 for ever.
    """

    kubeconfig: str | None = None
    resources: Path | None = None
    resources_namespace: str = DEFAULT_NAMESPACE
    engine: str = "auto"
    policy: str = "lonode"
    host: str = "127.0.0.1"
    port: int = 8888
    api_host: str = "127.0.0.1"
    api_port: int = 8889
    api_service: str = ""
    levels: Mapping[str, str] = field(default_factory=lambda: dict(LEVELS))
    bind_by: str = "direct"
    completion_limit: float | None = 300.0
    assembly_limit: float | None = 300.0
    grow_after: float | None = None
    largest_node: Resources = NOTHING
    audit_every: float = 60.0
    lease: str = ""
    identity: str = field(default_factory=socket.gethostname)
    scheduler_livez: str = ""
    history: str = ""
    history_keep: float = 400.0


STANDARD = Settings()
"""The settings by default."""


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """The settings of one webhook; the environment can set each of them too (see ``webhook --help``).

    ``resources`` and ``resources_namespace`` are as in `Settings`. The API server calls ``service`` (NAMESPACE/NAME),
    or ``url`` if one is given. ``sidecar_image`` is "" for the image that this process runs from.
    """

    kubeconfig: str | None = None
    resources: Path | None = None
    resources_namespace: str = DEFAULT_NAMESPACE
    host: str = "127.0.0.1"
    port: int = 8443
    handlers: tuple[str, ...] = ()
    service: str = f"{DEFAULT_NAMESPACE}/fluence-webhook"
    url: str = ""
    sidecar_image: str = ""


STANDARD_WEBHOOK = WebhookSettings()
"""The settings of a webhook by default."""
