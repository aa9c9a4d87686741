"""What is known of backends, gathered when the first object asks: the cluster's offers, attribute files, providers."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cached_property

from fluence_extender.apps.kubectl.arguments import Arguments
from fluence_extender.apps.kubectl.braket import BraketLive
from fluence_extender.apps.kubectl.errors import CommandError, KubectlFailed
from fluence_extender.apps.kubectl.program import ask_kubectl
from fluence_extender.apps.kubectl.terminal import tell_note, waiting
from fluence_extender.graph.problem import InvalidResourcesFile
from fluence_extender.model.names import RESOURCES_CONFIGMAP, RESOURCES_KEY
from fluence_extender.selection.attributes_file import parse_attributes
from fluence_extender.selection.backend import Backend
from fluence_extender.selection.errors import InvalidAttributeFile
from fluence_extender.selection.offers import offers_of_devices, parse_offers
from fluence_extender.selection.pipeline import Selection, Sources, select
from fluence_extender.selection.providers import ENTRY_POINTS, Provider
from fluence_extender.selection.request import Request

_PATIENCE = 20.0
"""Seconds for the ConfigMap; without it selection goes on."""

_SERVICE_PATIENCE = 10.0
"""Seconds for the service, which is asked where the ConfigMap can't be read."""

_REASON = re.compile(r"^\(\w+\): ")
"""What an API server's message begins with; it says nothing that the message doesn't."""


class Knowledge:
    """Chooses for one object after another; each source is read once, and only if somebody asks."""

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments
        self._tolerance = arguments.cost_tolerance

    def choose(self, label: str, request: Request) -> Selection:
        """Choose for the object ``label``. Raises `SelectionError`, and `CommandError` where nothing is known."""
        sources = self._sources
        offered = any(one.described for one in sources.offers or ())
        if not self._arguments.attributes and not offered and len(sources.providers) == 1:
            why = "its offers can't be read" if sources.offers is None else "its offers carry no attributes"
            raise CommandError(
                f"{label} requests selection but no --attributes file was given, and the cluster doesn't help: {why}"
            )
        return select(request, sources, self._tolerance)

    @cached_property
    def _sources(self) -> Sources:
        described = tuple(one for path in self._arguments.attributes for one in read_attributes(path))
        providers = (BraketLive(), *third_party())
        try:
            with waiting("reading what the cluster offers"):
                offers = read_offers(self._arguments.connection, self._arguments.fluence_namespace)
        except KubectlFailed as failure:
            error = _REASON.sub("", str(failure))
            offers = self._asked_of_the_service()
            if offers:
                return Sources(offers, described, providers, (f"offers are from the service ({error})",))
            note = f"could not read scheduler offerings ({error}); selecting without intersection"
            tell_note(note)
            return Sources(None, described, providers, (note,))
        return Sources(offers, described, providers)

    def _asked_of_the_service(self) -> tuple[Backend, ...]:
        """What the service offers, nothing where it can't be asked: the ConfigMap is the usual source."""
        from fluence_extender.apps.kubectl.question import Question
        from fluence_extender.apps.kubectl.service import Service

        arguments = self._arguments
        question = Question(
            "select", connection=arguments.connection, service_namespace=arguments.fluence_namespace
        )
        try:
            return offers_of_devices(Service(question, _SERVICE_PATIENCE).items("/v1/backends"))
        except CommandError:
            return ()


def read_attributes(path: str) -> tuple[Backend, ...]:
    """An attribute file. Raises `CommandError`."""
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
    """What the ConfigMap ``fluence-resources`` offers. Raises `KubectlFailed` with a reason, whatever it is."""
    arguments = ["get", "configmap", RESOURCES_CONFIGMAP, "-n", namespace, "-o", "json", *connection]
    if not any(word.startswith("--request-timeout") for word in connection):
        arguments.append("--request-timeout=10s")
    answer = ask_kubectl(arguments, _PATIENCE)
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


def third_party() -> list[Provider]:
    """The providers that other packages bring along; one that can't be loaded is a note."""
    from importlib.metadata import entry_points

    found: list[Provider] = []
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        try:
            found.append(point.load()())
        except Exception as error:  # somebody else's package
            tell_note(f"provider {point.name} can't be loaded: {error}")
    return found
