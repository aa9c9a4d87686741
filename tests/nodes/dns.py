"""A small DNS server for the names of Services and of pods behind headless Services, as cluster DNS has them.

It answers questions for IPv4 addresses over UDP, from what the API server says at that moment. All else is unknown: the
rig has no way out.
"""

from __future__ import annotations

import ipaddress
import socketserver
import struct
import threading
from collections.abc import Callable, Sequence

from tests.localcluster import Api, ApiError

ZONE = ("cluster", "local")
SECONDS = 5
"""How long an answer may be kept."""

A, IN = 1, 1
NO_ERROR, NO_SUCH_NAME = 0, 3
ANSWER, RECURSION = 0x8400, 0x0080
Lookup = Callable[[Sequence[str]], "list[str] | None"]


def resolve(api: Api, labels: Sequence[str]) -> list[str] | None:
    """Return the addresses of a name in the cluster's zone, None where there is no such name."""
    if tuple(labels[-3:]) != ("svc", *ZONE) or not 5 <= len(labels) <= 6:
        return None
    host, (service, namespace) = labels[:-5], labels[-5:-3]
    try:
        spec = api.get(f"/api/v1/namespaces/{namespace}/services/{service}")["spec"]
        if spec.get("clusterIP") != "None":
            return None if host else [spec["clusterIP"]]
        slices = api.get(
            f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
            labelSelector=f"kubernetes.io/service-name={service}",
        )["items"]
    except ApiError:
        return None
    every = spec.get("publishNotReadyAddresses", False)
    found = [
        address
        for endpoint in (one for item in slices for one in item.get("endpoints") or ())
        if every or endpoint.get("conditions", {}).get("ready", True)
        if not host or endpoint.get("hostname") == host[0]
        for address in endpoint["addresses"]
    ]
    return found or (None if host else [])


def answer(query: bytes, lookup: Lookup) -> bytes:
    """Return the answer to one DNS message (RFC 1035). Raise `ValueError` for what isn't one."""
    try:
        number, flags, questions = struct.unpack_from("!HHH", query)
        labels, end = _labels(query, 12)
        kind, group = struct.unpack_from("!HH", query, end)
    except (struct.error, IndexError) as error:
        raise ValueError("not a DNS query") from error
    if questions != 1:
        raise ValueError("not one question")
    addresses = lookup(labels)
    told = [] if addresses is None or (kind, group) != (A, IN) else addresses
    code = NO_SUCH_NAME if addresses is None else NO_ERROR
    header = struct.pack("!HHHHHH", number, ANSWER | RECURSION | (flags & 0x0100) | code, 1, len(told), 0, 0)
    records = (
        struct.pack("!HHHIH", 0xC00C, A, IN, SECONDS, 4) + ipaddress.IPv4Address(address).packed
        for address in told
    )
    return header + query[12 : end + 4] + b"".join(records)


def _labels(message: bytes, at: int) -> tuple[list[str], int]:
    """Return the labels of the name that begins at ``at``, and where it ends."""
    labels: list[str] = []
    while length := message[at]:
        if length > 63:
            raise ValueError("compressed name in a question")
        labels.append(message[at + 1 : at + 1 + length].decode("ascii", "replace").lower())
        at += 1 + length
    return labels, at + 1


class DnsServer:
    """The server at one address, as long as the context lasts."""

    def __init__(self, address: str, api: Api) -> None:
        class Question(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                data, sock = self.request
                try:
                    sock.sendto(answer(data, lambda labels: resolve(api, labels)), self.client_address)
                except ValueError:
                    return

        self._server = socketserver.ThreadingUDPServer((address, 53), Question)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="dns", daemon=True)

    def __enter__(self) -> DnsServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
