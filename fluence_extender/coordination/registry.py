"""Which provider a backend belongs to.

A backend's attribute ``provider`` names one; otherwise the first that says it matches is taken, third parties' ones
first, so that they can take over what ours would match. Invariant: a provider that can't be loaded, or raises when
asked, is reported and passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points

import structlog

from fluence_extender.coordination.provider import Provider
from fluence_extender.coordination.providers.braket import Braket
from fluence_extender.coordination.providers.http import Http
from fluence_extender.coordination.providers.ibm import Ibm

log = structlog.get_logger(__name__)

PROVIDERS_GROUP = "fluence_extender.providers"
PROVIDER_ATTRIBUTE = "provider"
CONTRACT_PREFIX = "FLUXION_"
OWN: tuple[Provider, ...] = (Braket(), Ibm(), Http())


def attributes_of(environ: Mapping[str, str]) -> dict[str, str]:
    """The attributes of the pod's backend, as admission put them into the environment: ``FLUXION_VENDOR`` -> vendor."""
    return {
        key.removeprefix(CONTRACT_PREFIX).lower(): value
        for key, value in environ.items()
        if key.startswith(CONTRACT_PREFIX) and key != CONTRACT_PREFIX and value
    }


def known_providers(others: Iterable[EntryPoint] | None = None) -> list[Provider]:
    """All providers, third parties' first."""
    found: list[Provider] = []
    for point in entry_points(group=PROVIDERS_GROUP) if others is None else others:
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
            log.warning("what is named isn't a provider", provider=point.name, value=point.value)
    return [*found, *OWN]


def resolve(attributes: Mapping[str, str], providers: Iterable[Provider]) -> Provider | None:
    """The provider of a backend, None where none matches."""
    named = attributes.get(PROVIDER_ATTRIBUTE, "")
    for provider in providers:
        if _asked(provider, lambda one: one.name == named if named else one.matches(attributes)):
            return provider
    return None


def _asked(provider: Provider, question: Callable[[Provider], bool]) -> bool:
    try:
        return bool(question(provider))
    except Exception as error:
        log.warning(
            "a provider failed when asked for its backends", provider=repr(provider), error=repr(error)
        )
        return False
