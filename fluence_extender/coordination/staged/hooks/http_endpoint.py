"""Hook for backends with plain HTTP at the URL in FLUXION_ENDPOINT: requests there name the pod in a header."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import urlsplit

HEADER = "Fluence-Pod-Uid"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def install(module: Any, pod: Any) -> None:
    """Let ``HTTPConnection`` of ``http.client`` send the header to that host and port only."""
    endpoint = urlsplit(pod.environ.get("FLUXION_ENDPOINT", ""))
    if endpoint.scheme not in ("http", "https") or not endpoint.hostname:
        return
    port = endpoint.port or (443 if endpoint.scheme == "https" else 80)
    original = module.HTTPConnection.endheaders

    def endheaders(self: Any, *args: Any, **kwargs: Any) -> Any:
        with suppress(Exception):
            if (self.host, self.port) == (endpoint.hostname, port):
                self.putheader(HEADER, pod.uid)
        return original(self, *args, **kwargs)

    module.HTTPConnection.endheaders = endheaders
