"""Where a pod's AWS credentials come from, in the order in which AWS's own libraries look.

The environment, a web identity (IAM roles for service accounts), the shared credentials file, the container's endpoint
(EKS Pod Identity, ECS). Not the node's own role: what a node may do isn't a pod's to use unasked. Invariant: keys that
expire are asked for anew some minutes before.
"""

from __future__ import annotations

import configparser
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from urllib.parse import urlencode, urlsplit
from xml.etree import ElementTree

from fluence_extender.coordination.aws.signing import Keys
from fluence_extender.coordination.provider import ProviderError
from fluence_extender.coordination.web import ask, asked

EARLY = 300.0
CONTAINER = "http://169.254.170.2"
STS = "{https://sts.amazonaws.com/doc/2011-06-15/}"


class Credentials:
    """The pod's keys, renewed as they expire; ``region`` is the one whose token service is asked."""

    def __init__(self, environ: Mapping[str, str], region: str) -> None:
        self._environ = environ
        self._region = region
        self._keys: Keys | None = None

    def keys(self) -> Keys:
        """Keys that are valid now. Raises `ProviderError` where there are none, saying where was looked."""
        known = self._keys
        if known is None or (known.expires and time.time() > known.expires - EARLY):
            known = self._keys = self._find()
        return known

    def forget(self) -> None:
        """Ask anew next time: the keys were refused."""
        self._keys = None

    def _find(self) -> Keys:
        found = self._static() or self._web_identity() or self._shared_file() or self._container()
        if found is None:
            raise ProviderError(
                "no AWS credentials: neither AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, nor AWS_ROLE_ARN and "
                "AWS_WEB_IDENTITY_TOKEN_FILE, nor a shared credentials file, nor AWS_CONTAINER_CREDENTIALS_FULL_URI "
                "is there in the sidecar (it gets what the first container has from Secrets)"
            )
        return found

    def _static(self) -> Keys | None:
        access, secret = self._environ.get("AWS_ACCESS_KEY_ID"), self._environ.get("AWS_SECRET_ACCESS_KEY")
        return Keys(access, secret, self._environ.get("AWS_SESSION_TOKEN", "")) if access and secret else None

    def _web_identity(self) -> Keys | None:
        role, file = self._environ.get("AWS_ROLE_ARN"), self._environ.get("AWS_WEB_IDENTITY_TOKEN_FILE")
        if not role or not file:
            return None
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
        answer = ask("POST", f"{url.rstrip('/')}/", headers, urlencode(form).encode())
        asked(answer, f"assume role {role}")
        try:
            found = ElementTree.fromstring(answer.text).find(f".//{STS}Credentials")
        except ElementTree.ParseError:
            found = None
        told = {one.tag.removeprefix(STS): one.text or "" for one in found} if found is not None else {}
        return _temporary(told, "SessionToken", f"assume role {role}")

    def _shared_file(self) -> Keys | None:
        path = Path(self._environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials")
        try:
            path = path.expanduser()
        except RuntimeError:
            # A user without a home.
            return None
        if not path.is_file():
            return None
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, OSError, UnicodeDecodeError) as error:
            raise ProviderError(f"{path} can't be read: {error}") from error
        profile = self._environ.get("AWS_PROFILE") or "default"
        if not parser.has_section(profile):
            return None
        told = parser[profile]
        access, secret = told.get("aws_access_key_id", ""), told.get("aws_secret_access_key", "")
        return Keys(access, secret, told.get("aws_session_token", "")) if access and secret else None

    def _container(self) -> Keys | None:
        relative = self._environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        url = (
            f"{CONTAINER}{relative}" if relative else self._environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
        )
        if not url:
            return None
        file = self._environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
        token = _read(file) if file else self._environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
        what = f"ask {urlsplit(url).netloc} for credentials"
        told = asked(ask("GET", url, {"Authorization": token} if token else {}), what)
        return _temporary(told, "Token", what)


def _temporary(told: Mapping[str, object], token: str, what: str) -> Keys:
    access, secret = told.get("AccessKeyId"), told.get("SecretAccessKey")
    if not isinstance(access, str) or not isinstance(secret, str) or not access or not secret:
        raise ProviderError(f"{what}: the answer holds no keys")
    try:
        expires = datetime.fromisoformat(str(told.get("Expiration"))).timestamp()
    except ValueError:
        expires = time.time() + 2 * EARLY
    return Keys(access, secret, str(told.get(token) or ""), expires)


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ProviderError(f"{file} can't be read: {error}") from error
