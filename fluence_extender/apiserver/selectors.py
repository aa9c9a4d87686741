"""Which labels the selector of an object selects, and why the API server refuses a selector.

Sources: Kubernetes apimachinery pkg/apis/meta/v1 (validation and LabelSelectorAsSelector).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fluence_extender.model.pod import Requirement
from fluence_extender.model.selectors import holds
from fluence_extender.model.syntax import invalid, is_label_value, is_qualified_name, label_faults

WITH_VALUES = ("In", "NotIn")
WITHOUT_VALUES = ("Exists", "DoesNotExist")


def selector_faults(selector: Mapping[str, Any], at: str) -> Iterator[str]:
    """Yield what is wrong with a selector, whose path is ``at`` and whose fields have their types."""
    yield from label_faults(selector.get("matchLabels"), f"{at}.matchLabels")
    for number, expression in enumerate(selector.get("matchExpressions") or ()):
        path = f"{at}.matchExpressions[{number}]"
        key, operator = expression.get("key") or "", expression.get("operator")
        values = expression.get("values") or ()
        if operator not in (*WITH_VALUES, *WITHOUT_VALUES):
            yield invalid(f"{path}.operator", operator or "", "not a valid selector operator")
        elif operator in WITH_VALUES and not values:
            yield f"{path}.values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
        elif operator in WITHOUT_VALUES and values:
            yield f"{path}.values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        if not is_qualified_name(key):
            yield invalid(f"{path}.key", key, "isn't a qualified name")
        for text in values:
            if not is_label_value(text):
                yield invalid(f"{path}.values", text, "isn't the value of a label")


def selects(selector: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Return whether a selector selects these labels. An expression with an unknown operator doesn't count."""
    rules = [
        Requirement(rule.get("key") or "", rule["operator"], tuple(rule.get("values") or ()))
        for rule in selector.get("matchExpressions") or ()
        if rule.get("operator") in (*WITH_VALUES, *WITHOUT_VALUES)
    ]
    same = all(labels.get(key) == text for key, text in (selector.get("matchLabels") or {}).items())
    return same and all(holds(rule, labels) for rule in rules)
