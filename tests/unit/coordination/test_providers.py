"""A backend gets its provider, and third parties may add providers."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from fluence_extender.coordination.provider import Provider, ProviderError
from fluence_extender.coordination.registry import (
    OWN,
    VENDORS_GROUP,
    attributes_of,
    connect_vendor,
    known_providers,
    resolve,
)

MODULE = """
class Sitewide:
    name = "sitewide"

    def matches(self, attributes):
        return attributes.get("vendor") == "ibm"

    def connect(self, attributes, environ):
        return (attributes, environ)


class Raising(Sitewide):
    name = "raising"

    def matches(self, attributes):
        raise RuntimeError("a bug")


class Broken:
    def __init__(self):
        raise RuntimeError("a bug")


INSTANCE = Sitewide()
NONSENSE = 5
name = "the module itself"

def matches(attributes):
    return False

def connect(attributes, environ):
    return None
"""


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = "third_party_provider"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def points(*values: str) -> list[EntryPoint]:
    return [EntryPoint(f"n{number}", value, VENDORS_GROUP) for number, value in enumerate(values)]


def test_attributes_come_from_the_environment() -> None:
    environ = {
        "FLUXION_BACKEND": "ibm_fez",
        "FLUXION_QRMI_TYPE": "x",
        "FLUXION_EMPTY": "",
        "OTHER": "y",
        "FLUXION_": "z",
    }
    assert attributes_of(environ) == {"backend": "ibm_fez", "qrmi_type": "x"}


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        ({"vendor": "ibm"}, "ibm"),
        ({"vendor": "aws"}, "braket"),
        ({"endpoint": "http://queue"}, "http"),
        ({"vendor": "ibm", "provider": "http"}, "http"),
        ({"vendor": "aws", "endpoint": "http://queue"}, "braket"),
    ],
)
def test_backend_gets_its_provider(attributes: Mapping[str, str], name: str) -> None:
    found = resolve(attributes, OWN)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("attributes", [{}, {"vendor": "acme"}, {"vendor": "ibm", "provider": "acme"}])
def test_unknown_backend_gets_no_provider(attributes: Mapping[str, str]) -> None:
    assert resolve(attributes, OWN) is None


def test_message_names_the_attributes_of_an_unknown_backend() -> None:
    with pytest.raises(ProviderError, match="no provider knows a backend with backend=x, vendor=acme"):
        connect_vendor({"FLUXION_BACKEND": "x", "FLUXION_VENDOR": "acme"})
    with pytest.raises(ProviderError, match="no attributes at all"):
        connect_vendor({})


@pytest.mark.parametrize("value", ["Sitewide", "INSTANCE"])
def test_providers_of_third_parties_come_first(third_party: str, value: str) -> None:
    found = resolve({"vendor": "ibm"}, known_providers(points(f"{third_party}:{value}")))
    assert found is not None
    assert found.name == "sitewide"


def test_module_may_be_a_provider(third_party: str) -> None:
    assert known_providers(points(third_party))[0].name == "the module itself"


@pytest.mark.parametrize("value", ["{}:NONSENSE", "{}:Broken", "{}:missing", "no_such_module", "{}:name"])
def test_provider_that_can_not_be_loaded_is_skipped(third_party: str, value: str) -> None:
    assert known_providers(points(value.format(third_party))) == list(OWN)


def test_provider_that_raises_is_skipped(third_party: str) -> None:
    providers = known_providers(points(f"{third_party}:Raising"))
    assert providers[0].name == "raising"
    found = resolve({"vendor": "ibm"}, providers)
    assert found is not None
    assert found.name == "ibm"


def test_our_own_providers_satisfy_the_protocol() -> None:
    assert all(isinstance(one, Provider) for one in OWN)
    assert len({one.name for one in OWN}) == len(OWN)
