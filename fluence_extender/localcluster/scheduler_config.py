"""KubeSchedulerConfiguration documents as kube-scheduler is to read them here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

API_VERSION = "kubescheduler.config.k8s.io/v1"

SchedulerConfig = Path | str | Mapping[str, Any] | None


def complete(config: SchedulerConfig, kubeconfig: Path) -> str:
    """``config`` as YAML: a file (Path), YAML text (str), a document, or None for kube-scheduler's defaults.

    Only what is left out is filled in: the kubeconfig, and no leader election, which would cost seconds at start.
    """
    if config is None:
        document: dict[str, Any] = {"apiVersion": API_VERSION, "kind": "KubeSchedulerConfiguration"}
    elif isinstance(config, Mapping):
        document = dict(config)
    else:
        text = config.read_text() if isinstance(config, Path) else config
        document = yaml.safe_load(text)
    connection = {"kubeconfig": str(kubeconfig), "qps": 1000, "burst": 2000}
    document["clientConnection"] = connection | (document.get("clientConnection") or {})
    document["leaderElection"] = {"leaderElect": False} | (document.get("leaderElection") or {})
    return yaml.safe_dump(document, sort_keys=False)
