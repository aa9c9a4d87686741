"""The address of the API server and the credentials for it.

The official client loads both: from a kubeconfig (several files, tokens, certificates, exec plugins, OIDC), or from the
pod's ServiceAccount, whose token it reads again every minute because the kubelet rotates it. All other credentials that
expire are loaded again when the API server answers 401. Invariant: a failed reload keeps the previous credentials.
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

from fluence_extender.cluster.errors import BadKubeconfig
from fluence_extender.cluster.official_client import Configuration, incluster_config, loaders

log = structlog.get_logger(__name__)

LOAD_LIMIT = 60.0
TOKEN = "BearerToken"


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of credentials: kubeconfig ``files``, joined by the path separator. If it is empty, the pod."""

    files: str = ""

    def __str__(self) -> str:
        return f"kubeconfig {self.files}" if self.files else "the pod's ServiceAccount"


def find_origin(kubeconfig: str | None, environ: Mapping[str, str], home: Path) -> Origin:
    """Return ``kubeconfig`` if given, else $KUBECONFIG, else the pod's ServiceAccount, else ~/.kube/config.

    Raise `BadKubeconfig` if there is none; its message names the places that were tried.
    """
    wanted = kubeconfig or environ.get("KUBECONFIG", "")
    if wanted:
        paths = [os.path.expanduser(path) for path in wanted.split(os.pathsep) if path]
        if not any(os.path.exists(path) for path in paths):
            option = "--kubeconfig" if kubeconfig else "$KUBECONFIG"
            raise BadKubeconfig(
                f"kubeconfig {wanted} doesn't exist (given by {option}): correct the path or create it"
            )
        return Origin(wanted)
    if environ.get(incluster_config.SERVICE_HOST_ENV_NAME):
        return Origin()
    default = home / ".kube" / "config"
    if default.exists():
        return Origin(str(default))
    raise BadKubeconfig(
        f"no cluster to connect to: no kubeconfig was given, $KUBECONFIG isn't set, {default} doesn't exist, "
        "and this isn't a pod ($KUBERNETES_SERVICE_HOST isn't set). Give --kubeconfig PATH"
    )


class Credentials:
    """A configuration of the official client that can be loaded again; ``generation`` counts the loads."""

    def __init__(self, origin: Origin, configuration: Configuration) -> None:
        self.origin = origin
        self.configuration = configuration
        self.generation = 1
        self._lock = asyncio.Lock()
        self._header = ""

    @classmethod
    async def load(cls, origin: Origin) -> Credentials:
        """Load the credentials of ``origin`` for the first time. Raise `BadKubeconfig`."""
        return cls(origin, await _read(origin))

    async def authorization(self) -> str:
        """Return the value of the Authorization header, "" without a token (client certificates need none)."""
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
        """Load the credentials again, unless that has happened since generation ``seen``.

        Return whether the caller should try again.
        """
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
    """Raise `BadKubeconfig` if an exec plugin failed, which the official loader only logs."""
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
    """Return the proxy that the environment sets. It is looked up once, because the environment doesn't change."""
    parts = urlsplit(host)
    if not parts.hostname or proxy_bypass(parts.hostname):
        return None
    return getproxies().get(parts.scheme)


def tls_fingerprint(configuration: Configuration) -> str:
    """Return a text that changes with the host, the proxy and the content of the TLS files.

    New connections are needed once it changes. Raise `BadKubeconfig` if a file can't be read.
    """
    digest = hashlib.sha256(f"{configuration.host}|{configuration.proxy}|{configuration.verify_ssl}".encode())
    for path in (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file):
        digest.update(b"|")
        if path:
            try:
                digest.update(Path(path).read_bytes())
            except OSError as error:
                raise BadKubeconfig(f"TLS file {path} can't be read: {error.strerror}") from error
    return digest.hexdigest()
