"""A cluster with the product on it, on which the demo applies its examples: embedded, or real Kubernetes."""

from __future__ import annotations

import json
import shutil
import sys
import urllib.request
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fluence_extender.apps.kubectl.options import SERVER_VARIABLE
from fluence_extender.localcluster.process import Startable

NAMESPACE = "default"
NODE: dict[str, Any] = {"cpu": "4", "memory": "16Gi", "pods": 110}
"""What each node of the demo has."""


@dataclass(frozen=True, slots=True)
class PodView:
    """What the demo shows of one pod."""

    uid: str
    name: str
    scheduler: str
    node: str
    phase: str


class Site(Startable):
    """One such cluster, from `start` to `stop`."""

    @property
    @abstractmethod
    def api_url(self) -> str:
        """The URL of the state API."""

    @abstractmethod
    def introduction(self) -> str:
        """Return what runs, in a line or two."""

    @abstractmethod
    def remark(self) -> str:
        """Return in one line what is simulated, or what differs from an installation, and what to do about it."""

    @abstractmethod
    def apply(self, manifest: dict[str, Any]) -> None:
        """Create the object of an example."""

    @abstractmethod
    def pods(self) -> Sequence[PodView]:
        """Return the pods of the examples. Raise `LocalClusterError` or `OSError` if they can't be read now."""

    def gangs(self) -> list[dict[str, Any]]:
        """Return the gangs, as ``/v1/gangs`` shows them. Raise `OSError`."""
        with urllib.request.urlopen(f"{self.api_url}/v1/gangs", timeout=10) as answer:
            items: list[dict[str, Any]] = json.load(answer)["items"]
        return items

    def commands(self) -> Sequence[str]:
        """Return commands with which a user can look at the cluster from another shell."""
        return (
            f"export {SERVER_VARIABLE}={self.api_url}",
            f"{plugin()} jobs",
            f"curl ${SERVER_VARIABLE}/v1/gangs",
        )

    def upkeep(self) -> Iterator[str]:
        """Yield a line for each thing that went wrong, or was mended, since the last call."""
        yield from ()


def plugin() -> str:
    """Return how a shell calls the kubectl plugin: through kubectl, else by the path beside this Python."""
    if shutil.which("kubectl") and shutil.which("kubectl-fluence"):
        return "kubectl fluence"
    return str(Path(sys.executable).parent / "kubectl-fluence")
