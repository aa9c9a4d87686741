"""Why the API server refuses a pod.

Sources: Kubernetes pkg/apis/core/validation (ValidatePodSpec and what it calls). Rules of fields that placement doesn't
depend on, such as probes and security contexts, are left out. A test compares the others with a real API server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fluence_extender.apiserver.selectors import selector_faults
from fluence_extender.cluster.port import Json
from fluence_extender.model.quantity import InvalidQuantity, nanos
from fluence_extender.model.requests import is_extended
from fluence_extender.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from fluence_extender.model.syntax import (
    invalid,
    is_dns_label,
    is_label_value,
    is_object_name,
    is_qualified_name,
    label_faults,
    metadata_faults,
    unsupported,
)

HUGEPAGES = "hugepages-"
WHOLE = 10**9
"""A whole amount, in billionths."""

LAST_PORT = 65535
OF_RUNNING = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
"""The fields of containers that run as long as the pod does."""
CLAIM_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HEAVIEST = 100
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
POLICIES = ("Always", "OnFailure", "Never")
SYSTEMS = ("linux", "windows")
PROTOCOLS = ("TCP", "UDP", "SCTP")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
TOLERATION_OPERATORS = ("Equal", "Exists", "Lt", "Gt")
NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
INCLUSIONS = ("Honor", "Ignore")
SPREADS = ("DoNotSchedule", "ScheduleAnyway")


def faults(pod: Json) -> list[str]:
    """Return what is wrong with the values of a pod after its admission. Its fields exist and have their types."""
    return [*metadata_faults(pod["metadata"], "metadata"), *_of_spec(pod["spec"])]


def _of_spec(spec: Mapping[str, Any]) -> Iterator[str]:
    yield from _of_whole(spec)
    if not spec.get("containers"):
        yield "spec.containers: Required value"
    containers = list(_containers(spec))
    yield from _duplicates("spec.containers", (one.get("name") for _, one in containers))
    yield from _duplicates("spec.volumes", (one.get("name") for one in spec.get("volumes") or ()))
    for number, volume in enumerate(spec.get("volumes") or ()):
        yield from _of_name(volume, f"spec.volumes[{number}].name")
    volumes = {one.get("name") for one in spec.get("volumes") or ()}
    claims = {one.get("name") for one in spec.get("resourceClaims") or ()}
    for at, container in containers:
        yield from _of_container(container, at)
        yield from _of_references(container, volumes, claims, at)
        yield from _of_ports(container.get("ports") or (), bool(spec.get("hostNetwork")), f"{at}.ports")
    yield from _of_host_ports(containers)
    yield from _of_pod_resources(spec, containers)
    yield from label_faults(spec.get("nodeSelector"), "spec.nodeSelector")
    for number, toleration in enumerate(spec.get("tolerations") or ()):
        yield from _of_toleration(toleration, f"spec.tolerations[{number}]")
    yield from _of_affinity(spec.get("affinity") or {})
    yield from _of_claims(spec.get("resourceClaims") or ())
    spreads = spec.get("topologySpreadConstraints") or ()
    yield from _duplicates(
        "spec.topologySpreadConstraints",
        ((one.get("topologyKey"), one.get("whenUnsatisfiable")) for one in spreads),
    )
    for number, constraint in enumerate(spreads):
        yield from _of_spread(constraint, f"spec.topologySpreadConstraints[{number}]")


def _of_claims(claims: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what is wrong with the resource claims of the pod."""
    at = "spec.resourceClaims"
    yield from _duplicates(at, (one.get("name") for one in claims))
    for number, claim in enumerate(claims):
        yield from _of_name(claim, f"{at}[{number}].name")
        named = [claim[field] for field in CLAIM_SOURCES if claim.get(field) is not None]
        if len(named) != 1:
            yield f"{at}[{number}]: Invalid value: must specify one of: {', '.join(CLAIM_SOURCES)}"
        elif not is_object_name(named[0]):
            yield invalid(f"{at}[{number}]", named[0], "must be a lowercase RFC 1123 subdomain")


def _of_whole(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with how the pod as a whole ends and with its operating system."""
    policy = spec.get("restartPolicy", "Always")
    if policy not in POLICIES:
        yield unsupported("spec.restartPolicy", policy, POLICIES)
    if (system := spec.get("os")) is not None:
        if not system.get("name"):
            yield "spec.os.name: Required value"
        elif system["name"] not in SYSTEMS:
            yield unsupported("spec.os", system["name"], SYSTEMS)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 0 < deadline < 2**31:
        yield invalid("spec.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647")


def _containers(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield all containers with their paths."""
    for kind in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(kind) or ()):
            yield f"spec.{kind}[{number}]", container


def _of_container(container: Mapping[str, Any], at: str) -> Iterator[str]:
    yield from _of_name(container, f"{at}.name")
    if not str(container.get("image") or "").strip():
        yield f"{at}.image: Required value"
    policy = container.get("restartPolicy")
    if policy is not None and policy not in POLICIES:
        yield unsupported(f"{at}.restartPolicy", policy, POLICIES)
    if at.startswith("spec.initContainers") and policy != "Always":
        for field in OF_RUNNING:
            if container.get(field) is not None:
                yield f"{at}.{field}: Forbidden: may not be set for init containers without restartPolicy=Always"
    resources = container.get("resources") or {}
    yield from _of_resources(resources, f"{at}.resources")
    for field in ("requests", "limits"):
        for resource in resources.get(field) or ():
            yield from _of_resource_name(resource, f"{at}.resources.{field}[{resource}]")
    asked = {*(resources.get("requests") or ()), *(resources.get("limits") or ())}
    if any(one.startswith(HUGEPAGES) for one in asked) and not asked & {CPU, MEMORY}:
        yield f"{at}.resources: Forbidden: HugePages require cpu or memory"


def _of_name(named: Mapping[str, Any], at: str) -> Iterator[str]:
    name = named.get("name")
    if not name:
        yield f"{at}: Required value"
    elif not is_dns_label(name):
        yield invalid(at, name, "must be a lowercase RFC 1123 label")


def _of_references(
    container: Mapping[str, Any], volumes: Iterable[Any], claims: Iterable[Any], at: str
) -> Iterator[str]:
    """Yield the volumes and resource claims that a container names and that the pod doesn't have."""
    mounts = container.get("volumeMounts") or ()
    for number, mount in enumerate(mounts):
        name = mount.get("name")
        if name not in volumes:
            yield f"{at}.volumeMounts[{number}].name: Not found: {name!r}"
        if not mount.get("mountPath"):
            yield f"{at}.volumeMounts[{number}].mountPath: Required value"
    yield from _duplicates(f"{at}.volumeMounts", (one.get("mountPath") for one in mounts))
    asked = (container.get("resources") or {}).get("claims") or ()
    yield from _duplicates(
        f"{at}.resources.claims", ((one.get("name"), one.get("request") or "") for one in asked)
    )
    for number, claim in enumerate(asked):
        if claim.get("name") not in claims:
            yield (
                f"{at}.resources.claims[{number}]: Not found: {claim.get('name')!r}: must be one of the names in "
                "spec.resourceClaims"
            )


def _of_ports(ports: Iterable[Mapping[str, Any]], on_host: bool, at: str) -> Iterator[str]:
    for number, port in enumerate(ports):
        inner, outer = port.get("containerPort"), port.get("hostPort")
        if not inner:
            yield f"{at}[{number}].containerPort: Required value"
        for field, given in (("containerPort", inner), ("hostPort", outer)):
            if given and not 0 < given <= LAST_PORT:
                yield f"{at}[{number}].{field}: Invalid value: {given}: must be between 1 and {LAST_PORT}"
        if on_host and outer and outer != inner:
            yield invalid(
                f"{at}[{number}].containerPort", inner, "must match `hostPort` when `hostNetwork` is true"
            )
        if (protocol := port.get("protocol", "TCP")) not in PROTOCOLS:
            yield unsupported(f"{at}[{number}].protocol", protocol, PROTOCOLS)


def _of_host_ports(containers: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    """Yield ports of the node that two containers want. Init containers run before the others."""
    wanted: Counter[tuple[str, int, str]] = Counter()
    for at, container in containers:
        if at.startswith("spec.initContainers"):
            continue
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                wanted[port.get("hostIP") or "", port["hostPort"], port.get("protocol", "TCP")] += 1
    for (_, number, protocol), count in wanted.items():
        if count > 1:
            yield f'spec.containers: ports: Duplicate value: host port "{protocol}/{number}"'


def _of_resource_name(name: str, at: str) -> Iterator[str]:
    if "/" not in name:
        if name not in (CPU, MEMORY, EPHEMERAL_STORAGE) and not name.startswith(HUGEPAGES):
            yield invalid(at, name, "must be a standard resource for containers (or have a domain)")
    elif not is_qualified_name(name):
        yield invalid(at, name, "isn't a qualified name")


def _of_resources(resources: Mapping[str, Any], at: str) -> Iterator[str]:
    amounts: dict[str, dict[str, int]] = {}
    for field in ("requests", "limits"):
        amounts[field] = {}
        for name, text in (resources.get(field) or {}).items():
            try:
                amount = amounts[field][name] = nanos(text)
            except InvalidQuantity as error:
                yield invalid(f"{at}.{field}[{name}]", text, str(error))
                continue
            if amount < 0:
                yield invalid(f"{at}.{field}[{name}]", text, "must be greater than or equal to 0")
            elif is_extended(name) and amount % WHOLE:
                yield invalid(f"{at}.{field}[{name}]", text, "must be an integer")
    for name, amount in amounts["requests"].items():
        limit = amounts["limits"].get(name)
        same = is_extended(name) or name.startswith(HUGEPAGES)
        if limit is None:
            if same:
                yield f"{at}.limits[{name}]: Required value: Limit must be set for non overcommitable resources"
        elif same and amount != limit:
            yield f"{at}.requests[{name}]: Invalid value: must be equal to {name} limit"
        elif amount > limit:
            yield f"{at}.requests[{name}]: Invalid value: must be less than or equal to {name} limit"


def _of_pod_resources(
    spec: Mapping[str, Any], containers: Iterable[tuple[str, Mapping[str, Any]]]
) -> Iterator[str]:
    """Yield what is wrong with the resources of the pod as a whole, beside those of its containers."""
    resources, at = spec.get("resources") or {}, "spec.resources"
    yield from _of_resources(resources, at)
    for field in ("requests", "limits"):
        for name in resources.get(field) or ():
            if name not in (CPU, MEMORY) and not name.startswith(HUGEPAGES):
                yield unsupported(f"{at}.{field}[{name}]", name, (CPU, MEMORY, HUGEPAGES))
    usual = [(at, one.get("resources") or {}) for at, one in containers if at.startswith("spec.containers")]
    for name, text in (resources.get("requests") or {}).items():
        if sum(_amount(own.get("requests"), name) for _, own in usual) > _amount({name: text}, name):
            why = "must be greater than or equal to aggregate container requests"
            yield invalid(f"{at}.requests[{name}]", text, why)
    for name, text in (resources.get("limits") or {}).items():
        most = _amount({name: text}, name)
        # A pod that requests nothing as a whole requests what its containers do.
        if sum(_amount(own.get("requests"), name) for _, own in usual) > most:
            yield invalid(f"{at}.limits[{name}]", text, "must be at least what its containers request")
        for path, own in usual:
            if _amount(own.get("limits"), name) > most:
                why = f"must be less than or equal to pod limits of {text}"
                yield invalid(f"{path}.resources.limits[{name}]", own["limits"][name], why)


def _amount(amounts: Mapping[str, Any] | None, name: str) -> int:
    """Return an amount in billionths, 0 if there is none or it can't be read."""
    try:
        return nanos((amounts or {}).get(name, 0))
    except InvalidQuantity:
        return 0


def _of_toleration(toleration: Mapping[str, Any], at: str) -> Iterator[str]:
    key, operator, value = (toleration.get(field) or "" for field in ("key", "operator", "value"))
    if key and not is_qualified_name(key):
        yield invalid(f"{at}.key", key, "isn't a qualified name")
    if not key and operator != "Exists":
        yield invalid(f"{at}.operator", operator, "operator must be Exists when `key` is empty")
    if operator and operator not in TOLERATION_OPERATORS:
        yield unsupported(f"{at}.operator", operator, TOLERATION_OPERATORS)
    if operator == "Exists" and value:
        yield invalid(f"{at}.operator", value, "value must be empty when `operator` is 'Exists'")
    elif operator in ("", "Equal") and not is_label_value(value):
        yield invalid(f"{at}.operator", value, "isn't a valid label value")
    effect = toleration.get("effect") or ""
    if effect and effect not in EFFECTS:
        yield unsupported(f"{at}.effect", effect, EFFECTS)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield invalid(f"{at}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")


def _of_affinity(affinity: Mapping[str, Any]) -> Iterator[str]:
    at = "spec.affinity"
    of_nodes = affinity.get("nodeAffinity") or {}
    if (required := of_nodes.get(REQUIRED)) is not None:
        path = f"{at}.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
        terms = required.get("nodeSelectorTerms") or ()
        if not terms:
            yield f"{path}: Required value: must have at least one node selector term"
        for number, term in enumerate(terms):
            yield from _of_term(term, f"{path}[{number}]")
    for number, weighted in enumerate(of_nodes.get(PREFERRED) or ()):
        path = f"{at}.nodeAffinity.{PREFERRED}[{number}]"
        yield from _of_weight(weighted, path)
        yield from _of_term(weighted.get("preference") or {}, f"{path}.preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        among = affinity.get(kind) or {}
        for number, term in enumerate(among.get(REQUIRED) or ()):
            yield from _of_pod_term(term, f"{at}.{kind}.{REQUIRED}[{number}]")
        for number, weighted in enumerate(among.get(PREFERRED) or ()):
            path = f"{at}.{kind}.{PREFERRED}[{number}]"
            yield from _of_weight(weighted, path)
            yield from _of_pod_term(weighted.get("podAffinityTerm") or {}, f"{path}.podAffinityTerm")


def _of_weight(weighted: Mapping[str, Any], at: str) -> Iterator[str]:
    if not 0 < (weight := weighted.get("weight") or 0) <= HEAVIEST:
        yield invalid(f"{at}.weight", weight, f"must be in the range 1-{HEAVIEST}")


def _of_term(term: Mapping[str, Any], at: str) -> Iterator[str]:
    for number, expression in enumerate(term.get("matchExpressions") or ()):
        yield from _of_expression(expression, f"{at}.matchExpressions[{number}]")
    for number, field in enumerate(term.get("matchFields") or ()):
        path = f"{at}.matchFields[{number}]"
        if field.get("key") != "metadata.name":
            yield invalid(f"{path}.key", field.get("key") or "", "not a valid field selector key")
        if field.get("operator") not in ("In", "NotIn"):
            yield invalid(f"{path}.operator", field.get("operator") or "", "not a valid selector operator")
        elif len(field.get("values") or ()) != 1:
            yield f"{path}.values: Required value: must be only one value"


def _of_pod_term(term: Mapping[str, Any], at: str) -> Iterator[str]:
    if not term.get("topologyKey"):
        yield f"{at}.topologyKey: Required value: can not be empty"
    elif not is_qualified_name(term["topologyKey"]):
        yield invalid(f"{at}.topologyKey", term["topologyKey"], "isn't a qualified name")
    for field in ("labelSelector", "namespaceSelector"):
        yield from selector_faults(term.get(field) or {}, f"{at}.{field}")
    for name in term.get("namespaces") or ():
        if not is_dns_label(name):
            yield invalid(f"{at}.namespaces", name, "must be a lowercase RFC 1123 label")


def _of_expression(expression: Mapping[str, Any], at: str) -> Iterator[str]:
    """Yield what is wrong with an expression about a node's labels."""
    key, operator, values = expression.get("key") or "", expression.get("operator"), expression.get("values")
    if not is_qualified_name(key):
        yield invalid(f"{at}.key", key, "isn't a qualified name")
    match operator:
        case "In" | "NotIn" if not values:
            yield f"{at}.values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
        case "Exists" | "DoesNotExist" if values:
            yield f"{at}.values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        case "Gt" | "Lt" if len(values or ()) != 1:
            yield f"{at}.values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'"
        case _ if operator not in NODE_OPERATORS:
            yield invalid(f"{at}.operator", operator, "not a valid selector operator")


def _of_spread(constraint: Mapping[str, Any], at: str) -> Iterator[str]:
    if (constraint.get("maxSkew") or 0) <= 0:
        yield f"{at}.maxSkew: Invalid value: {constraint.get('maxSkew', 0)}: must be greater than zero"
    if not constraint.get("topologyKey"):
        yield f"{at}.topologyKey: Required value: can not be empty"
    if (domains := constraint.get("minDomains")) is not None:
        if domains <= 0:
            yield invalid(f"{at}.minDomains", domains, "must be greater than zero")
        if constraint.get("whenUnsatisfiable") != "DoNotSchedule":
            yield invalid(f"{at}.minDomains", domains, "needs whenUnsatisfiable: DoNotSchedule")
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if (policy := constraint.get(field)) is not None and policy not in INCLUSIONS:
            yield unsupported(f"{at}.{field}", policy, INCLUSIONS)
    yield from selector_faults(constraint.get("labelSelector") or {}, f"{at}.labelSelector")
    if constraint.get("matchLabelKeys") and constraint.get("labelSelector") is None:
        yield f"{at}.matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"
    if (action := constraint.get("whenUnsatisfiable")) not in SPREADS:
        yield unsupported(f"{at}.whenUnsatisfiable", action or "", SPREADS)


def _duplicates(at: str, names: Iterable[Any]) -> Iterator[str]:
    for name, count in Counter(names).items():
        if name and count > 1:
            yield f"{at}: Duplicate value: {name!r}"
