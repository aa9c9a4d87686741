"""Signature Version 4 of AWS, as the IAM user guide describes it ("Create a signed AWS API request")."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import parse_qsl, quote, urlsplit

ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class Keys:
    """Credentials; ``token`` is that of temporary ones, ``expires`` in seconds since the epoch, 0 for never."""

    access: str
    secret: str = field(repr=False)
    token: str = field(default="", repr=False)
    expires: float = 0.0


def signed(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    keys: Keys,
    region: str,
    service: str,
    now: datetime,
) -> dict[str, str]:
    """``headers`` with those that sign the request; ``now`` in UTC. The path of ``url`` is encoded already."""
    parts = urlsplit(url)
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    sent = {**headers, "Host": parts.netloc, "X-Amz-Date": stamp}
    if keys.token:
        sent["X-Amz-Security-Token"] = keys.token
    named = {name.lower(): " ".join(value.split()) for name, value in sent.items()}
    names = ";".join(sorted(named))
    query = "&".join(
        f"{_encoded(name)}={_encoded(value)}"
        for name, value in sorted(parse_qsl(parts.query, keep_blank_values=True))
    )
    canonical = "\n".join(
        [
            method,
            # The path of the URL once more encoded, for all services but S3.
            quote(parts.path or "/", safe="/-_.~"),
            query,
            *(f"{name}:{named[name]}" for name in sorted(named)),
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        ]
    )
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    text = "\n".join([ALGORITHM, stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{keys.secret}".encode()
    for part in scope.split("/"):
        key = _keyed(key, part)
    signature = _keyed(key, text).hex()
    sent["Authorization"] = (
        f"{ALGORITHM} Credential={keys.access}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return sent


def _keyed(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def _encoded(text: str) -> str:
    return quote(text, safe="-_.~")
