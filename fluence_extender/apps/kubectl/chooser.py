"""Chooses backends from the cluster's offers, attribute files and providers.

Each source is read once, and only if an object asks for a backend.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cached_property

from fluence_extender.apps.kubectl.braket import BraketLive
from fluence_extender.apps.kubectl.errors import CommandError, KubectlFailed
from fluence_extender.apps.kubectl.program import kubectl_output
from fluence_extender.apps.kubectl.terminal import tell_note, waiting
from fluence_extender.graph.errors import InvalidResourcesFile
from fluence_extender.model.names import (
    RESOURCES_CONFIGMAP,
    RESOURCES_KEY,
)
from fluence_extender.selection.attributes_file import parse_attributes
from fluence_extender.selection.backend import Backend
from fluence_extender.selection.errors import InvalidAttributeFile
from fluence_extender.selection.offers import offers_of_devices, parse_offers
from fluence_extender.selection.pipeline import Selection, Sources, select
from fluence_extender.selection.providers import ENTRY_POINTS, BackendProvider
from fluence_extender.selection.request import SelectionRequest

_PATIENCE = 20.0
"""Seconds for the ConfigMap; without it selection goes on."""

_SERVICE_PATIENCE = 10.0
"""Seconds for the service, which is asked if the ConfigMap can't be read."""

_REASON = re.compile(r"^\(\w+\): ")
"""The reason at the beginning of an API server's message; the message repeats it."""


class Chooser:
    """Chooses for one object after another.

    ``attributes`` are paths of attribute files, ``namespace`` is that of the ConfigMap and the service, ``connection``
    are kubectl's flags that say which cluster is meant, and ``cost_tolerance`` is in US dollars.
    """

    def __init__(
        self, attributes: Sequence[str], namespace: str, connection: Sequence[str], cost_tolerance: float
    ) -> None:
        self._attributes = attributes
        self._namespace = namespace
        self._connection = connection
        self._tolerance = cost_tolerance

    def choose(self, label: str, request: SelectionRequest) -> Selection:
        """Choose for the object ``label``.

        Raise `SelectionError` if no backend can be chosen, and `CommandError` if nothing is known of any.
        """
        sources = self._sources
        offered = any(one.described for one in sources.offers or ())
        if not self._attributes and not offered and len(sources.providers) == 1:
            why = "its offers can't be read" if sources.offers is None else "its offers carry no attributes"
            raise CommandError(
                f"{label} requests selection but no --attributes file was given, and the cluster doesn't help: {why}"
            )
        return select(request, sources, self._tolerance)

    @cached_property
    def _sources(self) -> Sources:
        described = tuple(one for path in self._attributes for one in read_attributes(path))
        providers = (BraketLive(), *third_party_providers())
        try:
            with waiting("reading what the cluster offers"):
                offers = read_offers(self._connection, self._namespace)
        except KubectlFailed as failure:
            error = _REASON.sub("", str(failure))
            offers = self._offers_of_the_service()
            if offers:
                return Sources(offers, described, providers, (f"offers are from the service ({error})",))
            note = f"could not read scheduler offerings ({error}); selecting without intersection"
            tell_note(note)
            return Sources(None, described, providers, (note,))
        return Sources(offers, described, providers)

    def _offers_of_the_service(self) -> tuple[Backend, ...]:
        """Return what the service offers, nothing if it can't be asked: the ConfigMap is the usual source."""
        from fluence_extender.apps.kubectl.state_api import StateApiClient

        client = StateApiClient("", self._namespace, self._connection, _SERVICE_PATIENCE)
        try:
            return offers_of_devices(client.items("/v1/backends"))
        except CommandError:
            return ()


def read_attributes(path: str) -> tuple[Backend, ...]:
    """Read an attribute file. Raise `CommandError`."""
    try:
        with open(path, encoding="utf-8") as file:
            return parse_attributes(file.read(), path)
    except OSError as error:
        raise CommandError(f"read attribute file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CommandError(f"parse attribute file {path}: isn't UTF-8 text; save it as UTF-8") from None
    except InvalidAttributeFile as error:
        raise CommandError(str(error)) from None


def read_offers(connection: Sequence[str], namespace: str) -> tuple[Backend, ...]:
    """Read what the ConfigMap ``fluence-resources`` offers. Raise `KubectlFailed` if that can't be read."""
    arguments = ["get", "configmap", RESOURCES_CONFIGMAP, "-n", namespace, "-o", "json", *connection]
    if not any(word.startswith("--request-timeout") for word in connection):
        arguments.append("--request-timeout=10s")
    answer = kubectl_output(arguments, _PATIENCE)
    try:
        data = json.loads(answer).get("data") or {}
        text = data[RESOURCES_KEY] if RESOURCES_KEY in data else data[min(data)]
    except (ValueError, AttributeError):
        raise KubectlFailed(f"ConfigMap {namespace}/{RESOURCES_CONFIGMAP} has no {RESOURCES_KEY}") from None
    try:
        offers = parse_offers(text, f"{namespace}/{RESOURCES_CONFIGMAP}")
    except InvalidResourcesFile as error:
        raise KubectlFailed(str(error.problems[0])) from None
    if not offers:
        raise KubectlFailed("no device names found in resource graph")
    return offers


def third_party_providers() -> list[BackendProvider]:
    """Return the providers of other packages; one that can't be loaded becomes a note."""
    from importlib.metadata import entry_points

    found: list[BackendProvider] = []
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        try:
            found.append(point.load()())
        except Exception as error:  # code of another package
            tell_note(f"provider {point.name} can't be loaded: {error}")
    return found
