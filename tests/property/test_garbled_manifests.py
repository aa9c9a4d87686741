"""Whatever is written in place of a part of a manifest, a question about it has an answer or an error in words."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.embeddedcluster.cluster import EmbeddedCluster
from fluence_extender.embeddedcluster.session import EmbeddedSession
from fluence_extender.kinds.pod_sets import BadManifest
from fluence_extender.whatif.documents import NothingToSimulate
from fluence_extender.whatif.manifests import read_question, requested_gangs
from fluence_extender.whatif.trials import try_templates
from tests.integration.whatif.test_situations import SITUATIONS, read_pair

GARBAGE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(("", "1e3", "two", "-1", "1e-30", "fluence", "Always", "a b", "9223372036854775808")),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(("name", "spec", "cpu")), inner)
    ),
    max_leaves=4,
)
MANIFESTS = [one for path in SITUATIONS for one in read_pair(path)["manifests"] if "kind" in one]

Step = str | int


def paths(value: Any, at: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    if at:
        yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in inner:
        yield from paths(item, (*at, step))


@st.composite
def garbled(draw: st.DrawFn) -> dict[str, Any]:
    """A manifest of a situation with garbage in one or two places, but with its kind."""
    manifest: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(MANIFESTS)))
    for _ in range(draw(st.integers(1, 2))):
        *before, last = draw(st.sampled_from([path for path in paths(manifest) if path != ("kind",)]))
        target: Any = manifest
        for step in before:
            target = target[step]
        target[last] = draw(GARBAGE)
    return manifest


@given(garbled())
def test_garbled_manifest_has_an_answer_or_an_error_in_words(manifest: dict[str, Any]) -> None:
    session = EmbeddedSession(EmbeddedCluster())
    with suppress(BadManifest, NothingToSimulate):
        question = read_question([manifest])
        trials = asyncio.run(try_templates(question.templates, question.objects, session.try_pod))
        requested_gangs(question, trials)
