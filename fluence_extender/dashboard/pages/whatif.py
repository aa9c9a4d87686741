"""The page of what-if questions: a manifest, and what would become of its gangs."""

from __future__ import annotations

import htpy as h
from htpy import Node

from fluence_extender.dashboard.pages.frame import PageContent
from fluence_extender.dashboard.pages.overview import cluster_use
from fluence_extender.dashboard.pages.parts import heading, note
from fluence_extender.dashboard.service import LARGEST_MANIFEST, Trouble
from fluence_extender.dashboard.state import ClusterState
from fluence_extender.dashboard.views import commands, links
from fluence_extender.dashboard.views.overview import overview
from fluence_extender.dashboard.views.whatif import WhatIf

EXAMPLE = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 8
  completions: 8
  template:
    metadata:
      labels: {fluence.flux-framework.org/group: train}
    spec:
      schedulerName: fluence
      restartPolicy: Never
      containers:
      - name: train
        image: registry.k8s.io/pause:3.10
        resources: {requests: {cpu: "2"}}
"""


def whatif_page(
    state: ClusterState,
    manifest: str = "",
    namespace: str = "",
    answer: WhatIf | None = None,
    trouble: Trouble | None = None,
) -> PageContent:
    """Return the form, with the answer to what was asked, and how full the cluster is."""
    form = h.form("#question", method="post", action=links.WHAT_IF)[
        h.p[
            "Paste a manifest, or drop a file on the field. Nothing is created: the service plans it on a copy of what "
            "is free now."
        ],
        h.label[
            "Manifest (YAML or JSON)",
            h.textarea(name="manifest", rows="16", spellcheck="false")["\n" + (manifest or EXAMPLE)],
        ],
        h.label[
            "Namespace of objects that name none",
            h.input(name="namespace", value=namespace or "default", maxlength="63"),
        ],
        h.button(type="submit")["Would it fit?"],
    ]
    live = [_answer(answer, trouble, namespace), cluster_use(overview(state))]
    return PageContent("What if", links.WHAT_IF, live, form, 200 if trouble is None else 422)


def too_large() -> Trouble:
    """Return why a manifest isn't asked about."""
    return Trouble(
        f"The manifest is larger than {LARGEST_MANIFEST // 2**20} MiB.", "Ask about a part of it at a time."
    )


def _answer(answer: WhatIf | None, trouble: Trouble | None, namespace: str) -> Node:
    if trouble is not None:
        return note(trouble.text, trouble.advice, "trouble")
    if answer is None:
        return None
    return h.section("#answer")[
        heading(
            "All of it fits now" if answer.fits else "Not all of it fits now", commands.simulate(namespace)
        ),
        h.ul(".answers")[
            (
                h.li(class_="fits" if gang.fits else "fits-not")[
                    h.h3[h.span(aria_hidden="true")["✓ " if gang.fits else "✕ "], gang.title],
                    h.ul(".lines")[(h.li[line] for line in gang.lines)],
                ]
                for gang in answer.gangs
            )
        ],
        (note(text) for text in answer.notes),
    ]
