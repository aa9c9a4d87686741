"""The engines that get the documents, by name."""

from __future__ import annotations

from functools import partial

from fluence_extender.matcher import create_matcher
from tests.fuzz.trials import Create

CREATE: dict[str, Create] = {
    "embedded": partial(create_matcher, "embedded"),
    "fluxion": partial(create_matcher, "fluxion"),
}
