"""The syntax of names, labels and annotations (apimachinery pkg/util/validation)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fluence_extender.model.names import LONGEST_LABEL

_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
LONGEST_OBJECT_NAME = 253
MOST_ANNOTATED = 256 * 1024
"""The most bytes of an object's annotations together."""


def is_object_name(name: str) -> bool:
    """Return whether an object may have this name (an RFC 1123 subdomain)."""
    return len(name) <= LONGEST_OBJECT_NAME and _SUBDOMAIN.fullmatch(name) is not None


def is_dns_label(name: str) -> bool:
    """Return whether this is an RFC 1123 label, such as the name of a namespace or a container."""
    return _DNS_LABEL.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """Return whether a label may have this value."""
    return _LABEL_VALUE.fullmatch(text) is not None


def is_qualified_name(key: str) -> bool:
    """Return whether a label, an annotation or a resource may have this name, with or without a domain."""
    domain, separator, name = key.rpartition("/")
    return bool(name) and is_label_value(name) and (not separator or is_object_name(domain))


def metadata_faults(meta: Mapping[str, Any], at: str) -> Iterator[str]:
    """Yield what is wrong with the name, the labels and the annotations of an object; ``at`` is its metadata's path."""
    name = str(meta.get("name") or "")
    if not is_object_name(name):
        yield invalid(f"{at}.name", name, "must be a lowercase RFC 1123 subdomain")
    prefix = meta.get("generateName")
    if prefix and isinstance(prefix, str) and not is_object_name(as_begun(prefix)):
        yield invalid(f"{at}.generateName", prefix, "must be a lowercase RFC 1123 subdomain")
    yield from label_faults(meta.get("labels"), f"{at}.labels")
    annotated = 0
    for key, text in _texts(meta.get("annotations")):
        annotated += len(key.encode()) + len(text.encode())
        if not is_qualified_name(key.lower()):
            yield invalid(f"{at}.annotations", key, "isn't the key of an annotation")
    if annotated > MOST_ANNOTATED:
        yield f"{at}.annotations: Too long: may not be more than {MOST_ANNOTATED} bytes"


def as_begun(prefix: str) -> str:
    """Return a name that begins with a ``generateName``: a dash at its end is followed by other characters."""
    return f"{prefix[:-1]}a" if prefix[-1:] == "-" and len(prefix) > 1 else prefix


def label_faults(labels: object, at: str) -> Iterator[str]:
    """Yield what is wrong with labels, or with those that a selector wants; ``at`` is their path."""
    for key, text in _texts(labels):
        if not is_qualified_name(key):
            yield invalid(at, key, "isn't the key of a label")
        if not is_label_value(text):
            yield invalid(at, text, label_rule(text))


def invalid(at: str, given: object, why: str) -> str:
    """Return why a value is refused, in the form of the API server; ``at`` is its path."""
    return f"{at}: Invalid value: {given!r}: {why}"


def unsupported(at: str, given: object, supported: Iterable[str]) -> str:
    """Return that a value is none of those ``supported``, in the form of the API server; ``at`` is its path."""
    return f'{at}: Unsupported value: "{given}": supported values: {", ".join(supported)}'


def label_rule(text: str) -> str:
    """Return which rule the value of a label breaks."""
    if len(text) > LONGEST_LABEL:
        return f"must be no more than {LONGEST_LABEL} characters"
    return "a label's value has letters, digits, '-', '_' and '.', and begins and ends with a letter or digit"


def _texts(given: object) -> Iterator[tuple[str, str]]:
    if isinstance(given, dict):
        yield from ((key, text) for key, text in given.items() if isinstance(text, str))
