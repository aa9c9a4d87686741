"""Find the provider that a backend belongs to, and connect to the backend's queue.

A backend's attribute ``provider`` names one. Otherwise the first provider that matches counts; those of third parties
come first, so they can take over backends that ours would match. Invariant: a provider that can't be loaded, or that
raises, is logged and skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points

import structlog

from fluence_extender.coordination.provider import Provider, ProviderError, VendorQueue
from fluence_extender.coordination.providers.braket import Braket
from fluence_extender.coordination.providers.http import Http
from fluence_extender.coordination.providers.ibm import Ibm

log = structlog.get_logger(__name__)

VENDORS_GROUP = "fluence_extender.quantum_vendors"
PROVIDER_ATTRIBUTE = "provider"
CONTRACT_PREFIX = "FLUXION_"
OWN: tuple[Provider, ...] = (Braket(), Ibm(), Http())


def attributes_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes of the pod's backend.

    Admission has put them into the environment: ``FLUXION_VENDOR`` is the attribute vendor.
    """
    return {
        key.removeprefix(CONTRACT_PREFIX).lower(): value
        for key, value in environ.items()
        if key.startswith(CONTRACT_PREFIX) and key != CONTRACT_PREFIX and value
    }


def known_providers(others: Iterable[EntryPoint] | None = None) -> list[Provider]:
    """Return all providers, those of third parties first."""
    found: list[Provider] = []
    for point in entry_points(group=VENDORS_GROUP) if others is None else others:
        try:
            loaded = point.load()
            made = loaded() if isinstance(loaded, type) else loaded
        except Exception as error:
            log.warning(
                "a provider can't be loaded", provider=point.name, value=point.value, error=repr(error)
            )
            continue
        if isinstance(made, Provider):
            found.append(made)
        else:
            log.warning("an entry point isn't a provider", provider=point.name, value=point.value)
    return [*found, *OWN]


def resolve(attributes: Mapping[str, str], providers: Iterable[Provider]) -> Provider | None:
    """Return the provider of a backend, None if none matches."""
    named = attributes.get(PROVIDER_ATTRIBUTE, "")
    for provider in providers:
        if _holds(provider, lambda one: one.name == named if named else one.matches(attributes)):
            return provider
    return None


def connect_vendor(environ: Mapping[str, str]) -> VendorQueue:
    """Return the queue of the backend that the environment describes. Raises `ProviderError` if none matches."""
    attributes = attributes_of(environ)
    provider = resolve(attributes, known_providers())
    if provider is None:
        listed = (
            ", ".join(f"{key}={value}" for key, value in sorted(attributes.items())) or "no attributes at all"
        )
        raise ProviderError(
            f"no provider knows a backend with {listed}: give it the attribute provider in resources.yaml, or install "
            "one (entry points fluence_extender.quantum_vendors)"
        )
    queue = provider.connect(attributes, environ)
    log.info("following tasks", provider=provider.name, backend=attributes.get("backend", ""))
    return queue


def _holds(provider: Provider, condition: Callable[[Provider], bool]) -> bool:
    try:
        return bool(condition(provider))
    except Exception as error:
        log.warning("a provider failed while it was matched", provider=repr(provider), error=repr(error))
        return False
