"""The attributes of virtual resources: named sets, references to them, inheritance.

Invariant: a resolved set has no empty values and shares nothing with another set, and each of its keys has an
environment variable of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fluence_extender.graph.document import Item
from fluence_extender.graph.naming_rules import Rule, attribute_rule, nearest, value_rule
from fluence_extender.graph.virtual import environment_name

MOST_ATTRIBUTES = 128
"""The most attributes in one set. Each resource that refers to a set, or inherits it, has a copy."""


class AttributeSets:
    """The attribute sets of one file; ``note`` receives their problems."""

    def __init__(self, note: Callable[[Item, str, str], None]) -> None:
        self._note = note
        self._registry: dict[str, dict[str, str]] = {}
        self._environment: dict[str, str] = {}

    def resolve(self, item: Item | None, kind: str, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return the attributes of a resource of type ``kind``: those in ``item``, and the inherited ones."""
        own: Mapping[str, str] = {}
        if item is not None and item.kind == "text":
            own = self._registry.get(item.text, {})
            if item.text not in self._registry:
                fix = (
                    nearest(item.text, self._registry)
                    if self._registry
                    else "define it under top-level 'attributes:'"
                )
                self._note(item, f'resource "{kind}" references unknown attribute set "{item.text}"', fix)
        elif item is not None and item.kind == "map":
            own = self._attribute_set(item)
        elif item is not None and item.kind != "null":
            self._note(
                item,
                f"attributes must be a string reference or a map, got: {item}",
                "write e.g. 'attributes: {vendor: ibm}'",
            )
        return {key: value for key, value in {**inherited, **own}.items() if value}

    def read_registry(self, item: Item | None) -> None:
        """Read the file's top-level ``attributes``; to be done before any resource is resolved."""
        if item is None or item.kind == "null":
            return
        if item.kind != "map":
            self._note(
                item,
                f"must be a map from a name to attributes, not {item}",
                "write e.g. 'ibm: {vendor: ibm}'",
            )
            return
        for name, entry in item.entries.items():
            self._registry[name] = {}
            if entry.kind == "map":
                self._registry[name] = self._attribute_set(entry)
            elif entry.kind != "null":
                self._note(
                    entry,
                    f"must be a map of attributes, not {entry}",
                    f"write e.g. '{name}: {{vendor: ibm}}'",
                )

    def _attribute_set(self, item: Item) -> dict[str, str]:
        if len(item.entries) > MOST_ATTRIBUTES:
            fix = f"keep the {MOST_ATTRIBUTES} that users choose by"
            self._note(item, f"has {len(item.entries)} attributes, more than {MOST_ATTRIBUTES}", fix)
            return {}
        attributes: dict[str, str] = {}
        for key, value in item.entries.items():
            self._apply(value, attribute_rule(key))
            self._check_environment(value, key)
            if value.kind == "text":
                self._apply(value, value_rule(value.text))
                attributes[key] = value.text
            else:
                fix = (
                    f'put it in quotes: {key}: "{value.text}"'
                    if value.text
                    else 'write a text, or "" to clear it'
                )
                self._note(value, f"an attribute value must be a string, not {value}", fix)
        return attributes

    def _check_environment(self, item: Item, key: str) -> None:
        variable = environment_name(key)
        first = self._environment.setdefault(variable, key)
        if first != key:
            self._note(
                item,
                f"attributes {first!r} and {key!r} would both be the environment variable {variable}",
                "rename one of the two",
            )

    def _apply(self, item: Item, rule: Rule) -> None:
        if rule is not None:
            self._note(item, *rule)
