"""Documents that a person could write by mistake: valid documents with something changed.

`spoil` draws every decision from a `random.Random`, so the same code is driven by a seed, by hypothesis, or by a
coverage-guided fuzzer that feeds the generator its own bytes.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any

Place = tuple[Any, Any]
"""A container of the document, and the key or index in it."""

WORDS = (
    "",
    "x",
    "0",
    "-1",
    "1-4",
    "[0-",
    "node[0-2]",
    "/",
    "//",
    "/cluster0",
    "/cluster0/node9",
    "core",
    "slot",
    "true",
    "null",
    "~",
    ".nan",
    "1e400",
    "0x",
    "08",
    "a\0b",
    "\ud800",
    "ü\u202e\u0301\U0001d7d8",
    "٣",
    "\n",
    " core",
    "core ",
    "^",
    "a|b",
    "%s%n{0}",
    "x" * 3000,
    "9" * 30,
    "1" * 5000,
    "/a" * 400,
)
NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**53 + 1,
    2**62,
    2**63 - 1,
    2**63,
    -(2**63) - 1,
    2**64,
    10**400,
    10**5000,
    0.0,
    -0.0,
    0.5,
    1.0,
    1e16,
    1e308,
    5e-324,
    float("nan"),
    float("inf"),
    -float("inf"),
)
STRANGERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], [None], {"": None}, {"a": {"a": 1}}, [1, "a"])


def places(document: Any) -> list[Place]:
    """Return every place in the document, containers before their content; one that holds itself counts once."""
    found: list[Place] = []
    seen: set[int] = set()
    waiting = [document]
    while waiting:
        item = waiting.pop()
        if not isinstance(item, (dict, list)) or id(item) in seen:
            continue
        seen.add(id(item))
        for key in list(item) if isinstance(item, dict) else range(len(item)):
            found.append((item, key))
            waiting.append(item[key])
    return found


def spoil(random: Random, original: Any) -> Any:
    """Return a copy of the document with one to four changes."""
    document = copy.deepcopy(original)
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 4))):
        if not isinstance(document, (dict, list)):
            return document
        choices = places(document)
        if not choices or random.random() < 0.01:
            return odd(random)
        container, key = random.choice(choices)
        random.choice(_CHANGES)(random, choices, container, key)
    return document


def spoil_text(random: Random, original: Any) -> str | bytes:
    """Return the document as JSON text with a few characters changed."""
    text = json.dumps(original, indent=random.choice((None, 1)))
    for _ in range(random.choice((0, 1, 1, 2, 5))):
        start = random.randrange(len(text) + 1)
        end = min(len(text), start + random.choice((0, 0, 1, 1, 3, 40)))
        text = text[:start] + random.choice(_SCRAPS) + text[end:]
    if random.random() < 0.1:
        text = text[: random.randrange(len(text) + 1)]
    if random.random() < 0.3:
        data = bytearray(text.encode("utf-8", "surrogatepass"))
        if data and random.random() < 0.5:
            data[random.randrange(len(data))] = random.randrange(256)
        return bytes(data)
    return text


def odd(random: Random) -> Any:
    """Return a value that is wrong nearly everywhere."""
    kind = random.randrange(6)
    if kind == 0:
        return random.choice(WORDS)
    if kind == 1:
        return random.choice(NUMBERS)
    if kind == 2:
        return _deep(random)
    if kind == 3 and random.random() < 0.1:
        return random.choice((b"x", (1, 2), {1}, 1j, object()))
    return copy.deepcopy(random.choice(STRANGERS))


def _twin(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except (RecursionError, TypeError):
        return value


def _deep(random: Random) -> Any:
    value: Any = 1
    for _ in range(random.choice((3, 60, 150, 400, 3000))):
        value = [value] if random.random() < 0.5 else {random.choice(("a", "with", "and", "not")): value}
    return value


def _replace(random: Random, choices: list[Place], container: Any, key: Any) -> None:
    container[key] = odd(random)


def _remove(random: Random, choices: list[Place], container: Any, key: Any) -> None:
    del container[key]


def _nudge(random: Random, choices: list[Place], container: Any, key: Any) -> None:
    """Change a value to one that resembles it."""
    value = container[key]
    if isinstance(value, bool) or value is None:
        container[key] = str(value)
    elif isinstance(value, int):
        if abs(value) < 10**30:
            container[key] = random.choice(
                (value + 1, value - 1, -value, value * 10**12, str(value), float(value), [value])
            )
    elif isinstance(value, str):
        cut = random.randrange(len(value) + 1)
        container[key] = random.choice(
            (
                value + "0",
                value[:cut],
                value[cut:],
                value.upper(),
                f"{value[:cut]}{random.choice(WORDS)}",
                [value],
            )
        )
    elif isinstance(value, list):
        random.shuffle(value)
    elif isinstance(value, dict):
        container[key] = list(value.items())[:1] if random.random() < 0.3 else list(value.values())


def _copy(random: Random, choices: list[Place], container: Any, key: Any) -> None:
    """Copy a value from another place to this one. This makes double ids, cycles, and resources in place of tasks."""
    other, its_key = random.choice(choices)
    container[key] = _twin(other[its_key])


def _alias(random: Random, choices: list[Place], container: Any, key: Any) -> None:
    """Put the object of another place here without copying it; it may contain this place."""
    other, its_key = random.choice(choices)
    container[key] = other[its_key]


def _double(random: Random, choices: list[Place], container: Any, key: Any) -> None:
    if isinstance(container, list):
        container.insert(random.randrange(len(container) + 1), _twin(container[key]))
    else:
        container[f"{key}{random.choice(('', '2', ' '))}"] = _twin(container[key])


def _rename(random: Random, choices: list[Place], container: Any, key: Any) -> None:
    if isinstance(container, dict):
        value = container.pop(key)
        container[
            random.choice((f"{key} ", str(key).upper(), str(key)[:-1], "", "x", "a\0", "\udfff", 5))
        ] = value
    else:
        container[key] = {"": container[key]}


def _add(random: Random, choices: list[Place], container: Any, key: Any) -> None:
    if isinstance(container, dict):
        container[random.choice(("count", "x", "with", "size", "free_ranks", "scheduling", "unit"))] = odd(
            random
        )
    else:
        container.append(odd(random))


_Change = Callable[[Random, list[Place], Any, Any], None]
_CHANGES: tuple[_Change, ...] = (
    _replace,
    _replace,
    _replace,
    _remove,
    _remove,
    _nudge,
    _nudge,
    _copy,
    _copy,
    _alias,
    _double,
    _rename,
    _add,
)
_SCRAPS = (
    "",
    "",
    "{",
    "}",
    "[",
    "]",
    '"',
    ",",
    ":",
    "\\",
    "\\u0000",
    "\\ud800",
    "\0",
    "\ufeff",
    "NaN",
    "-",
    "1e999",
    "9" * 40,
    "null",
    '"id": "0", ',
    "//",
    "'",
    " ",
    "[" * 2000,
    '{"a":' * 2000,
)
