"""Write on a pod what admission warns of.

A controller drops the warnings that it gets for its pods. So the pod carries them, and the service tells them in an
Event on the pod's owner and in the gang's notes. Warnings of labels and annotations without effect aren't written,
because the service finds them by itself.
"""

from __future__ import annotations

from dataclasses import replace

from fluence_extender.model.names import LONGEST_WARNING, WARNING_ANNOTATION
from fluence_extender.webhook.contract import Json, Outcome
from fluence_extender.webhook.declaration import Unfit, read_declaration
from fluence_extender.webhook.draft import Draft
from fluence_extender.webhook.validity import conflicts, shape_fault


def with_note(pod: Json, outcome: Outcome) -> Outcome:
    """Return the outcome for ``pod`` with its warnings as an annotation. The warnings replace what a user wrote there.

    A pod that can't be patched, or whose annotations are full, gets none.
    """
    if not outcome.warnings or shape_fault(pod):
        return outcome
    try:
        elsewhere = read_declaration(pod).warnings
    except Unfit:
        elsewhere = ()
    text = "; ".join(warning for warning in outcome.warnings if warning not in elsewhere)
    if not text:
        return outcome
    draft = Draft(outcome.pod or pod)
    draft.put("metadata", "annotations", WARNING_ANNOTATION, value=text[:LONGEST_WARNING])
    if not draft.operations or conflicts(draft.object):
        return outcome
    return replace(outcome, patch=(*outcome.patch, *draft.operations), pod=draft.object)
