"""Find a pod's AWS credentials and sign requests with them.

Credentials are searched for in the order of AWS's own libraries: the environment, a web identity (IAM roles for service
accounts), the shared credentials file, and the container's endpoint (EKS Pod Identity, ECS). The node's own role isn't
used, because a pod may not use a node's rights unasked. Requests carry Signature Version 4, as the IAM user guide
describes it ("Create a signed AWS API request").

Invariant: keys that expire are replaced some minutes earlier.
"""

from __future__ import annotations

import configparser
import hashlib
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit
from xml.etree import ElementTree

from fluence_extender.coordination.provider import ProviderError
from fluence_extender.coordination.vendor_http import send

ALGORITHM = "AWS4-HMAC-SHA256"
EARLY = 300.0
"""Seconds before their end from which on keys are replaced."""
CONTAINER = "http://169.254.170.2"
STS = "{https://sts.amazonaws.com/doc/2011-06-15/}"


@dataclass(frozen=True, slots=True)
class Keys:
    """Credentials. Temporary ones have a ``token``; ``expires`` is in seconds since the epoch, 0 for never."""

    access: str
    secret: str = field(repr=False)
    token: str = field(default="", repr=False)
    expires: float = 0.0


class AwsCredentials:
    """The pod's keys, replaced before they expire; ``region`` is the one whose token service is asked."""

    def __init__(self, environ: Mapping[str, str], region: str) -> None:
        self._environ = environ
        self._region = region
        self._keys: Keys | None = None

    def keys(self) -> Keys:
        """Return keys that are valid now. Raises `ProviderError` if there are none; the text says what to set."""
        known = self._keys
        if known is None or (known.expires and time.time() > known.expires - EARLY):
            known = self._keys = self._find()
        return known

    def forget(self) -> None:
        """Find other keys next time, because these were refused."""
        self._keys = None

    def _find(self) -> Keys:
        found = self._static() or self._web_identity() or self._shared_file() or self._container()
        if found is None:
            raise ProviderError(
                "the sidecar has no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_ROLE_ARN "
                "and AWS_WEB_IDENTITY_TOKEN_FILE, or a shared credentials file, or AWS_CONTAINER_CREDENTIALS_FULL_URI, "
                "from a Secret in the first container"
            )
        return found

    def _static(self) -> Keys | None:
        access, secret = self._environ.get("AWS_ACCESS_KEY_ID"), self._environ.get("AWS_SECRET_ACCESS_KEY")
        return Keys(access, secret, self._environ.get("AWS_SESSION_TOKEN", "")) if access and secret else None

    def _web_identity(self) -> Keys | None:
        role, file = self._environ.get("AWS_ROLE_ARN"), self._environ.get("AWS_WEB_IDENTITY_TOKEN_FILE")
        if not role or not file:
            return None
        attempt = f"assume role {role}"
        form = {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": role,
            "RoleSessionName": self._environ.get("AWS_ROLE_SESSION_NAME") or "fluence-sidecar",
            "WebIdentityToken": _read(file),
        }
        endpoint = self._environ.get("AWS_ENDPOINT_URL_STS") or self._environ.get("AWS_ENDPOINT_URL")
        url = endpoint or f"https://sts.{self._region}.amazonaws.com"
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        response = send("POST", f"{url.rstrip('/')}/", headers, urlencode(form).encode())
        response.checked(attempt)
        try:
            found = ElementTree.fromstring(response.text).find(f".//{STS}Credentials")
        except ElementTree.ParseError:
            found = None
        fields = {one.tag.removeprefix(STS): one.text or "" for one in found} if found is not None else {}
        return _temporary(fields, "SessionToken", attempt)

    def _shared_file(self) -> Keys | None:
        path = Path(self._environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials")
        try:
            path = path.expanduser()
        except RuntimeError:
            # The user has no home.
            return None
        if not path.is_file():
            return None
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, OSError, UnicodeDecodeError) as error:
            raise ProviderError(f"{path} can't be read: {error}") from error
        name = self._environ.get("AWS_PROFILE") or "default"
        if not parser.has_section(name):
            return None
        profile = parser[name]
        access, secret = profile.get("aws_access_key_id", ""), profile.get("aws_secret_access_key", "")
        return Keys(access, secret, profile.get("aws_session_token", "")) if access and secret else None

    def _container(self) -> Keys | None:
        relative = self._environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        url = (
            f"{CONTAINER}{relative}" if relative else self._environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
        )
        if not url:
            return None
        file = self._environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
        token = _read(file) if file else self._environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
        attempt = f"ask {urlsplit(url).netloc} for credentials"
        fields = send("GET", url, {"Authorization": token} if token else {}).checked(attempt)
        return _temporary(fields, "Token", attempt)


def _temporary(fields: Mapping[str, object], token: str, attempt: str) -> Keys:
    access, secret = fields.get("AccessKeyId"), fields.get("SecretAccessKey")
    if not isinstance(access, str) or not isinstance(secret, str) or not access or not secret:
        raise ProviderError(f"{attempt}: the answer holds no keys")
    try:
        expires = datetime.fromisoformat(str(fields.get("Expiration"))).timestamp()
    except ValueError:
        expires = time.time() + 2 * EARLY
    return Keys(access, secret, str(fields.get(token) or ""), expires)


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ProviderError(f"{file} can't be read: {error}") from error


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
    """Return ``headers`` with those that sign the request.

    ``now`` is in UTC; the path of ``url`` is encoded already.
    """
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
            # All services but S3 sign the URL's path encoded once more.
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
