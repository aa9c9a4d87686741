"""Why the API server refuses the policies of a Job about the failure and success of its pods.

Sources: Kubernetes pkg/apis/batch/validation (validatePodFailurePolicy, validateSuccessPolicy).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fluence_extender.model.syntax import invalid, is_qualified_name, unsupported

ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
OPERATORS = ("In", "NotIn")
STATUSES = ("True", "False", "Unknown")
MOST_RULES = 20
MOST_CODES = 255
_INTERVALS = re.compile(r"[0-9]{1,9}(-[0-9]{1,9})?(,[0-9]{1,9}(-[0-9]{1,9})?)*")


def failure_policy_faults(spec: Mapping[str, Any], at: str) -> Iterator[str]:
    """Yield what is wrong with the podFailurePolicy of a Job with this spec, whose path is ``at``."""
    policy = spec.get("podFailurePolicy")
    if policy is None:
        return
    if spec.get("podReplacementPolicy") not in (None, "Failed"):
        yield f"{at}.podReplacementPolicy: Unsupported value: with a podFailurePolicy it must be Failed"
    at = f"{at}.podFailurePolicy.rules"
    rules = policy.get("rules") or ()
    if len(rules) > MOST_RULES:
        yield f"{at}: Too many: {len(rules)}: must have at most {MOST_RULES} items"
    template = ((spec.get("template") or {}).get("spec")) or {}
    names = {one.get("name") for kind in ("initContainers", "containers") for one in template.get(kind) or ()}
    for number, rule in enumerate(rules[:MOST_RULES]):
        path, action = f"{at}[{number}]", rule.get("action")
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
        if action not in ACTIONS:
            yield unsupported(f"{path}.action", action or "", ACTIONS)
        if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            yield invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set")
        if (codes is not None) == bool(conditions):
            yield f"{path}: Invalid value: specify one of onExitCodes and onPodConditions"
        if codes is not None:
            yield from _of_codes(codes, names, f"{path}.onExitCodes")
        for condition in conditions or ():
            if not is_qualified_name(condition.get("type") or ""):
                yield invalid(
                    f"{path}.onPodConditions.type", condition.get("type") or "", "isn't a qualified name"
                )
            if (status := condition.get("status") or "True") not in STATUSES:
                yield unsupported(f"{path}.onPodConditions.status", status, STATUSES)


def _of_codes(codes: Mapping[str, Any], names: set[Any], at: str) -> Iterator[str]:
    operator, values, name = codes.get("operator"), codes.get("values") or [], codes.get("containerName")
    if operator not in OPERATORS:
        yield unsupported(f"{at}.operator", operator or "", OPERATORS)
    if name is not None and name not in names:
        yield invalid(f"{at}.containerName", name, "must be the name of a container of the pod")
    if not 0 < len(values) <= MOST_CODES:
        yield f"{at}.values: Invalid value: one to {MOST_CODES} exit codes are required"
    elif operator == "In" and 0 in values:
        yield invalid(f"{at}.values", 0, "must not be 0 for the In operator")
    elif values != sorted(set(values)):
        yield f"{at}.values: Invalid value: must be ordered and different"


def success_policy_faults(spec: Mapping[str, Any], at: str) -> Iterator[str]:
    """Yield what is wrong with the successPolicy of a Job with this spec, whose path is ``at``."""
    policy = spec.get("successPolicy")
    if policy is None:
        return
    at, rules = f"{at}.successPolicy", policy.get("rules") or ()
    if spec.get("completionMode") != "Indexed":
        yield f"{at}: Invalid value: requires indexed completion mode"
    if not 0 < len(rules) <= MOST_RULES:
        yield f"{at}.rules: Required value: one to {MOST_RULES} rules"
    completions = spec.get("completions") or 0
    for number, rule in enumerate(rules[:MOST_RULES]):
        path, indexes, count = (
            f"{at}.rules[{number}]",
            rule.get("succeededIndexes"),
            rule.get("succeededCount"),
        )
        if indexes is None and count is None:
            yield f"{path}: Required value: at least one of succeededCount or succeededIndexes must be specified"
        most = completions
        if indexes is not None:
            most = _indexes(indexes, completions)
            if most < 0:
                why = "must be increasing indexes and ranges below completions, such as 0,2-3"
                yield invalid(f"{path}.succeededIndexes", indexes, why)
                continue
        if count is not None and not 0 <= count <= most:
            yield invalid(
                f"{path}.succeededCount", count, f"must be between 0 and the number of indexes, {most}"
            )


def _indexes(text: str, completions: int) -> int:
    """Return how many indexes a text such as 0,2-3 names, -1 if it can't be read."""
    if not text:
        return 0
    if not _INTERVALS.fullmatch(text):
        return -1
    total, before = 0, -1
    for interval in text.split(","):
        first, *last = map(int, interval.split("-"))
        end = last[0] if last else first
        if first <= before or end >= completions or (last and end <= first):
            return -1
        total, before = total + end - first + 1, end
    return total
