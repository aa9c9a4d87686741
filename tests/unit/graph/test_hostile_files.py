"""A resources.yaml of any content is read, or refused with its problems, in time that grows with its length."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import pytest

from fluence_extender.apps.kubectl.manifests import split_documents
from fluence_extender.graph.attribute_sets import MOST_ATTRIBUTES
from fluence_extender.graph.document import LARGEST_TEXT
from fluence_extender.graph.errors import InvalidResourcesFile
from fluence_extender.graph.naming_rules import MOST_COMPARED
from fluence_extender.graph.resources_file import parse_resources
from tests.core.growth import assert_linear

SOON = 15.0
"""CPU seconds for a file of a megabyte on a shared machine, at some 10 microseconds a value."""


def resources(*lines: str) -> str:
    return "\n".join(("resources:", *lines))


FILES: Mapping[str, Callable[[int], str]] = {
    "resources": lambda n: resources(*(f"- {{type: q{i}}}" for i in range(n))),
    "resources of one type": lambda n: resources("- {type: q}", *["- {type: q}"] * n),
    "declared names": lambda n: resources(*(f"- {{type: q, name: q{i}}}" for i in range(n)), "- {type: q}"),
    "one name": lambda n: resources(*["- {type: q, name: same}"] * n),
    "children": lambda n: resources("- type: q", "  with:", *("  - {type: r}" for _ in range(n))),
    "unknown keys": lambda n: resources(f"- {{type: q, {', '.join(f'typo{i}: 1' for i in range(n))}}}"),
    "a long unknown key": lambda n: resources(f"- {{type: q, {'typ' * n}: 1}}"),
    "unknown sets": lambda n: "\n".join(
        (
            "attributes:",
            *(f"  set{i}: {{a: b}}" for i in range(n)),
            resources(*(f"- {{type: q, attributes: sot{i}}}" for i in range(n))),
        )
    ),
    "large sets": lambda n: "\n".join(
        (
            f"attributes: {{s: {{{', '.join(f'a{i}: b' for i in range(n))}}}}}",
            resources(*["- {type: q, attributes: s}"] * n),
        )
    ),
    "merges of many": lambda n: resources(f"- <<: [{', '.join(f'{{k{i}: v}}' for i in range(n))}]"),
    "duplicate keys": lambda n: resources(f"- {{type: q, {'count: 1, ' * n}}}"),
    "aliases": lambda n: resources("- &a {type: q}", *["- *a"] * n),
    "counts": lambda n: resources(*["- {type: q, count: 9, with: [{type: r}]}"] * n),
    "a long number": lambda n: resources(f"- {{type: q, count: {'1' * n}}}"),
    "a number in base 60": lambda n: resources(f"- {{type: q, count: 1{':1' * n}}}"),
    "a long type": lambda n: resources(f"- {{type: {'q-' * n}}}"),
}

BOMBS: Mapping[str, str] = {
    "aliases of aliases": "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 40)),
    "merged aliases": "a0: &a0 {k: v}\n"
    + "".join(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}], k{i}: v}}\n" for i in range(1, 60)),
    "an alias to itself": "resources: &a [*a]",
    "deep lists": "a: " + "[" * 500_000,
    "deep maps": "{a: " * 100_000,
}


def parsed(text: str) -> None:
    with suppress(InvalidResourcesFile):
        parse_resources(text)


@pytest.mark.parametrize("kind", FILES)
def test_time_to_read_resources_grows_with_the_file(kind: str) -> None:
    # A file over the limit isn't read, so the larger input has to stay below it.
    assert_linear(parsed, lambda n: FILES[kind](min(n, 8_000)), 60)


@pytest.mark.parametrize("kind", BOMBS)
def test_file_that_multiplies_is_refused_soon(kind: str) -> None:
    assert len(BOMBS[kind]) < LARGEST_TEXT
    began = time.thread_time()
    with pytest.raises(InvalidResourcesFile):
        parse_resources(BOMBS[kind])
    assert time.thread_time() - began < SOON


def test_set_has_so_many_attributes_at_most() -> None:
    parse_resources(FILES["large sets"](MOST_ATTRIBUTES))
    with pytest.raises(InvalidResourcesFile, match=f"more than {MOST_ATTRIBUTES}"):
        parse_resources(FILES["large sets"](MOST_ATTRIBUTES + 1))


def test_advice_about_one_of_many_words_is_short() -> None:
    with pytest.raises(InvalidResourcesFile) as refused:
        parse_resources(FILES["unknown sets"](MOST_COMPARED + 1))
    assert f"write one of the {MOST_COMPARED + 1} that are known" in str(refused.value)


def test_time_to_split_documents_grows_with_them() -> None:
    assert_linear(lambda text: list(split_documents(text)), lambda n: "---\na: b\n" * n)
    assert_linear(lambda text: list(split_documents(text)), lambda n: "\\" * n + "ud800")
