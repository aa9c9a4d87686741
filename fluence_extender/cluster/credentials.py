"""Where the API server is and who we are to it.

Loading is the official client's: kubeconfig (several files, tokens, certificates, exec plugins, OIDC) or the pod's
ServiceAccount, whose token it reads again every minute as the kubelet rotates it. Everything else that expires is
loaded anew when the API server answers 401. Invariant: a failed reload keeps the credentials we had.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import structlog
import yaml
from kubernetes.aio import config as loaders
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import incluster_config

from fluence_extender.cluster.errors import BadKubeconfig

log = structlog.get_logger(__name__)

LOAD_LIMIT = 60.0
TOKEN = "BearerToken"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where credentials come from: a kubeconfig (``files`` joined by the path separator) or, if empty, the pod."""

    files: str = ""

    def __str__(self) -> str:
        return f"kubeconfig {self.files}" if self.files else "the pod's ServiceAccount"


def find_origin(kubeconfig: str | None, environ: Mapping[str, str], home: Path) -> Origin:
    """The one asked for, else $KUBECONFIG, else the pod we run in, else ~/.kube/config.

    Raises `BadKubeconfig` when there is none, naming what was looked at.
    """
    asked = kubeconfig or environ.get("KUBECONFIG", "")
    if asked:
        paths = [os.path.expanduser(path) for path in asked.split(os.pathsep) if path]
        if not any(os.path.exists(path) for path in paths):
            said = "--kubeconfig" if kubeconfig else "$KUBECONFIG"
            raise BadKubeconfig(
                f"kubeconfig {asked} doesn't exist (given by {said}): correct the path or create it"
            )
        return Origin(asked)
    if environ.get(incluster_config.SERVICE_HOST_ENV_NAME):
        return Origin()
    usual = home / ".kube" / "config"
    if usual.exists():
        return Origin(str(usual))
    raise BadKubeconfig(
        f"no cluster to connect to: no kubeconfig was given, $KUBECONFIG isn't set, {usual} doesn't exist, "
        "and this isn't a pod ($KUBERNETES_SERVICE_HOST isn't set). Give --kubeconfig PATH"
    )


class Credentials:
    """A loaded configuration of the official client, renewable; ``generation`` counts the loads."""

    def __init__(self, origin: Origin, configuration: Configuration) -> None:
        self.origin = origin
        self.configuration = configuration
        self.generation = 1
        self._lock = asyncio.Lock()
        self._header = ""

    @classmethod
    async def load(cls, origin: Origin) -> Credentials:
        """Read ``origin`` for the first time. Raises `BadKubeconfig`."""
        return cls(origin, await _read(origin))

    async def authorization(self) -> str:
        """The value of the Authorization header, "" without a token (client certificates need none)."""
        try:
            value = await self.configuration.get_api_key_with_prefix(TOKEN)
            self._header = (value or "").strip()
        except (loaders.ConfigException, OSError) as error:
            log.warning(
                "the token can't be read again; the last one is used",
                origin=str(self.origin),
                error=str(error),
            )
        return self._header

    async def renew(self, seen: int) -> bool:
        """Load anew unless that happened since generation ``seen``; whether the caller should try again."""
        async with self._lock:
            if self.generation != seen:
                return True
            try:
                self.configuration = await _read(self.origin)
            except BadKubeconfig as error:
                log.warning("credentials can't be loaded again; the old ones are kept", error=str(error))
                return False
            self.generation += 1
            log.info("credentials were loaded again", origin=str(self.origin))
            return True


async def _read(origin: Origin) -> Configuration:
    configuration = Configuration()
    try:
        async with asyncio.timeout(LOAD_LIMIT):
            if origin.files:
                loader = await loaders.load_kube_config(  # type: ignore[no-untyped-call]
                    config_file=origin.files, client_configuration=configuration, persist_config=False
                )
                _check_plugin(origin, loader, configuration)
            else:
                loaders.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except TimeoutError:
        raise BadKubeconfig(f"{origin}: its credential plugin gave no answer in {LOAD_LIMIT:.0f} s") from None
    except (
        loaders.ConfigException,
        yaml.YAMLError,
        OSError,
        ValueError,
        TypeError,
        AttributeError,
        KeyError,
    ) as error:
        raise BadKubeconfig(
            f"{origin} can't be used: {error or type(error).__name__}. {_advice(origin)}"
        ) from error
    if not configuration.proxy:
        configuration.proxy = _proxy(configuration.host)
    return configuration


def _check_plugin(origin: Origin, loader: object, configuration: Configuration) -> None:
    """The official loader only logs that an exec plugin failed, and would go on as nobody."""
    user = getattr(loader, "_user", None)
    if user is not None and "exec" in user and not (configuration.api_key or configuration.cert_file):
        raise BadKubeconfig(
            f"{origin}: the exec plugin of its current user gave no credentials. "
            f"Run `kubectl --kubeconfig {origin.files} get nodes` to see why"
        )


def _advice(origin: Origin) -> str:
    if origin.files:
        return f"Check it with `kubectl --kubeconfig {origin.files} config view --minify`"
    return "Set automountServiceAccountToken: true on the pod, or give --kubeconfig PATH"


def _proxy(host: str) -> str | None:
    """The proxy the environment asks for; looked up once, as the environment doesn't change."""
    parts = urlsplit(host)
    if not parts.hostname or proxy_bypass(parts.hostname):
        return None
    return getproxies().get(parts.scheme)


def tls_fingerprint(configuration: Configuration) -> str:
    """Changes when host, proxy or any TLS file's content does, and then connections must be opened anew."""
    digest = hashlib.sha256(f"{configuration.host}|{configuration.proxy}|{configuration.verify_ssl}".encode())
    for path in (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file):
        digest.update(b"|")
        if path:
            try:
                digest.update(Path(path).read_bytes())
            except OSError as error:
                raise BadKubeconfig(f"TLS file {path} can't be read: {error.strerror}") from error
    return digest.hexdigest()
