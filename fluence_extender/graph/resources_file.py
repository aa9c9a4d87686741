"""Reading resources.yaml: from text to virtual resources, or to all problems in it.

    resources:               # required when the file has any content
      - type: qpu            # required; a pod asks for fluxion.flux-framework.org/qpu
        name: ibm_fez        # optional; the backend's name on the top level
        count: 1             # optional
        parent: cluster      # optional, top level only: cluster or the name of a node
        attributes: ibm      # optional: a name from `attributes` below, or a map of its own
        with: [...]          # optional: what it consists of, in the same form
    attributes:
      ibm: {vendor: ibm}

Children inherit attributes. A child's own value wins, and the value "" removes an attribute.

Invariant: all problems are found in one pass over the file, and a file with any problem yields no resources.
"""

from __future__ import annotations

from collections.abc import Mapping

from fluence_extender.graph.attribute_sets import AttributeSets
from fluence_extender.graph.document import Item, child_path, read_document
from fluence_extender.graph.errors import InvalidResourcesFile, Problem
from fluence_extender.graph.naming_rules import nearest, type_rule
from fluence_extender.graph.resource_names import NameGiver
from fluence_extender.graph.virtual import CLUSTER_PARENT, VirtualResource, VirtualResources

LARGEST_COUNT = 2**31 - 1
MOST_VERTICES = 100_000
"""The most node-typed vertices that one file may make."""

TOP_KEYS = ("resources", "attributes")
RESOURCE_KEYS = ("type", "name", "count", "parent", "attributes", "with")
_NO_RESOURCES = (
    "resources config has content but defines no resources: expected a top-level 'resources:' list",
    "list your resources under 'resources:', or leave the file empty for a classical cluster",
)


def parse_resources(text: str | bytes, source: str = "resources.yaml") -> VirtualResources:
    """Read a resources file, YAML or JSON; ``source`` is its name in messages.

    An empty text, or one with comments only, declares nothing. Raises `InvalidResourcesFile` with all problems.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            problem = Problem(
                source, "", 0, f"isn't UTF-8 text: {error.reason} at byte {error.start}", "save it as UTF-8"
            )
            raise InvalidResourcesFile([problem]) from None
    document, problems = read_document(text, source)
    parser = _Parser(source, problems)
    resources = parser.file(document) if document is not None else ()
    if problems:
        raise InvalidResourcesFile(sorted(problems, key=lambda problem: problem.line))
    return VirtualResources(source, resources)


class _Parser:
    """One pass over a document; every fault is noted and replaced by a harmless value."""

    def __init__(self, source: str, problems: list[Problem]) -> None:
        self._source = source
        self._problems = problems
        self._attributes = AttributeSets(self._note)
        self._names = NameGiver(self._note)
        self._vertices_left = MOST_VERTICES

    def file(self, document: Item) -> tuple[VirtualResource, ...]:
        if document.kind != "map":
            self._note(document, *_NO_RESOURCES)
            return ()
        self._check_keys(document, TOP_KEYS)
        self._attributes.read_registry(document.entries.get("attributes"))
        declared = document.entries.get("resources")
        if declared is None or declared.kind == "null" or (declared.kind == "list" and not declared.items):
            self._note(declared or document, *_NO_RESOURCES)
            return ()
        if declared.kind != "list":
            self._note(
                declared,
                f"must be a list of resources, not {declared}",
                "begin each resource with '- type: ...'",
            )
            return ()
        self._names.reserve(declared)
        resources = tuple(self._resource(item, {}, None) for item in declared.items)
        self._names.check_top(resources)
        if self._vertices_left < 0 or sum(one.vertices() for one in resources) > MOST_VERTICES:
            self._note(
                declared,
                f"make more than {MOST_VERTICES} vertices",
                "lower the counts of types with children",
            )
        return resources

    def _resource(self, item: Item, inherited: Mapping[str, str], parent: str | None) -> VirtualResource:
        if item.kind != "map":
            self._note(item, f"must be a map with a type, not {item}", "write '- type: <type>'")
            return VirtualResource("", "", ())
        self._check_keys(item, RESOURCE_KEYS)
        kind = self._type(item)
        attributes = self._attributes.resolve(item.entries.get("attributes"), kind, inherited)
        count = self._count(item.entries.get("count"))
        parts = self._parts(item.entries.get("with"))
        names = self._names.give(item, kind, self._copies(count) if parts else 1)
        children = tuple(self._resource(part, attributes, names[0]) for part in parts)
        self._names.check_siblings(children)
        return VirtualResource(
            type=kind,
            name=self._text(item, "name") or names[0],
            names=names,
            count=count,
            parent=self._parent(item, parent),
            attributes=attributes,
            children=children,
            path=item.path,
            line=item.line,
        )

    def _type(self, item: Item) -> str:
        if item.entries.get("type", Item("null", "", 0)).kind == "null":
            self._note(item, "resource is missing required field 'type'", "add 'type: <type>'")
            return ""
        kind = self._text(item, "type")
        if kind:
            rule = type_rule(kind)
            if rule is not None:
                self._note(item.entries["type"], *rule)
        return kind

    def _count(self, item: Item | None) -> int:
        if item is None or item.kind == "null":
            return 1
        if item.whole is None or not 1 <= item.whole <= LARGEST_COUNT:
            self._note(
                item, f"must be a whole number from 1 to {LARGEST_COUNT}, not {item}", "write e.g. 'count: 1'"
            )
            return 1
        return item.whole

    def _copies(self, count: int) -> int:
        """Return ``count``, or 1 once the file makes too many vertices, which `file` notes at the end."""
        self._vertices_left -= count
        return count if self._vertices_left >= 0 else 1

    def _parts(self, item: Item | None) -> tuple[Item, ...]:
        if item is None or item.kind == "null":
            return ()
        if item.kind != "list":
            self._note(
                item, f"must be a list of resources, not {item}", "begin each resource with '- type: ...'"
            )
            return ()
        return item.items

    def _parent(self, item: Item, above: str | None) -> str:
        if above is None:
            return self._text(item, "parent") or CLUSTER_PARENT
        if "parent" in item.entries:
            self._note(
                item.entries["parent"],
                f"is only for top-level resources; this one belongs to {above!r}",
                "remove it, or move the resource to the top level",
            )
        return above

    def _text(self, item: Item, key: str) -> str:
        """Return the text under ``key``, empty when there is none or it can't be used."""
        value = item.entries.get(key)
        if value is None or value.kind == "null":
            return ""
        if value.kind != "text":
            fix = f'put it in quotes: "{value.text}"' if value.text else "write a text"
            self._note(value, f"must be a text, not {value}", fix)
            return ""
        if not value.text:
            self._note(value, "is empty", "remove it or give it a value")
        return value.text

    def _check_keys(self, item: Item, known: tuple[str, ...]) -> None:
        for key, value in item.entries.items():
            if key not in known:
                path = child_path(item.path, key)
                self._problems.append(
                    Problem(self._source, path, value.line, "is an unknown key", nearest(key, known))
                )

    def _note(self, item: Item, message: str, fix: str) -> None:
        self._problems.append(Problem(self._source, item.path, item.line, message, fix))
