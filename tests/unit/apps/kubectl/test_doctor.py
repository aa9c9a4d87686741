"""The checks of doctor and their fixes."""

from __future__ import annotations

import json
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fluence_extender import __version__
from fluence_extender.apps.kubectl.doctor import snapshot
from fluence_extender.apps.kubectl.doctor.checks import POLICIES, PROTECTING
from fluence_extender.apps.kubectl.doctor.snapshot import MUTATING, VALIDATING
from tests.unit.apps.kubectl.programs import Ended, Fluence, Program

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
NODE = {"name": "n1", "schedulable": True, "problems": []}
DEVICE = {"backend": "fez", "usable": True, "problems": []}
GANG = {"namespace": "default", "name": "g", "state": "waiting", "why": "Busy", "reason": "busy"}
REFUSED_CALL = (
    'Error from server (InternalError): error when creating "STDIN": Internal error occurred: failed calling webhook '
    '"devices.fluence.flux-framework.org": failed to call webhook: Post "https://x/mutate": connection refused'
)
METRICS = 'fluence_drift_total{kind="held"} 0.0\nfluence_extender_resources_rejected_total 0.0\n'


def listed(*items: dict[str, Any]) -> str:
    return json.dumps({"items": items, "metadata": {"leading": True}})


def lease(ago: float, holder: str = "fluence-0_x") -> str:
    renewed = NOW - timedelta(seconds=ago)
    return json.dumps(
        {"spec": {"holderIdentity": holder, "renewTime": renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}}
    )


def deployment(ready: int, wanted: int = 2) -> str:
    return json.dumps({"spec": {"replicas": wanted}, "status": {"readyReplicas": ready}})


def registration(bundle: str = "Q0E=", **client: Any) -> str:
    where = client or {"service": {"name": "fluence-webhook", "namespace": "fluence-system"}}
    return json.dumps({"webhooks": [{"clientConfig": {**where, "caBundle": bundle}}] * 2})


ADMISSION = ".admissionregistration.k8s.io/"


def installed(kind: str, *but: str) -> str:
    """The policies of a kind with their bindings, as kubectl names them."""
    names = [
        f"{part}{ADMISSION}fluence-{name}" for name in POLICIES[kind] for part in (kind, f"{kind}binding")
    ]
    return "\n".join(name for name in names if not name.endswith(but))


@pytest.fixture
def healthy(kubectl: Program, fluence: Fluence, monkeypatch: pytest.MonkeyPatch) -> Fluence:
    """Return ``kubectl fluence`` for a healthy installation, at a fixed time."""
    monkeypatch.setattr(snapshot, "now", lambda: NOW)
    kubectl.answers("get --raw /version", out='{"gitVersion": "v1.36.3"}')
    kubectl.answers(".org/v1/nodes", out=listed(NODE))
    kubectl.answers(".org/v1/backends", out=listed(DEVICE))
    kubectl.answers(".org/v1/gangs", out=listed(GANG))
    kubectl.answers(".org/v1/openapi.json", out=json.dumps({"info": {"version": __version__}}))
    kubectl.answers(".org/v1/metrics", out=METRICS)
    kubectl.answers("get deployment fluence-webhook", out=deployment(2))
    kubectl.answers("get mutatingwebhookconfiguration fluence-webhook", out=registration())
    kubectl.answers("get deployment fluence-dashboard", err="(NotFound): no", code=1)
    kubectl.answers("get serviceaccount fluence", out="{}")
    kubectl.answers("get deployment fluence", out=deployment(2))
    kubectl.answers("get lease fluence", out=lease(3))
    for kind in (MUTATING, VALIDATING):
        kubectl.answers(f"get {kind},", out=installed(kind))
    kubectl.answers("get queues.", out='{"items": []}')
    kubectl.answers("auth can-i", out="yes")
    return fluence


def findings(ended: Ended) -> dict[str, tuple[str, str, str]]:
    return {one["check"]: (one["status"], one["text"], one["fix"]) for one in json.loads(ended.out)["items"]}


def test_a_healthy_installation_has_no_faults(healthy: Fluence) -> None:
    ended = healthy("doctor")
    assert ended.code == 0, ended
    assert {line.split()[0] for line in ended.out.splitlines()} == {"ok"}
    assert [line.split()[1] for line in ended.out.splitlines()] == [
        *("cluster", "service", "versions", "replicas", "scheduler", "policies", "queues", "webhook"),
        *("rights", "nodes", "drift", "resources", "gangs"),
    ]


QUEUE_PARTLY_IGNORED = {
    "kind": "Queue",
    "metadata": {"name": "physics"},
    "status": {"conditions": [{"type": "Accepted", "status": "False", "message": "why"}]},
}


@pytest.mark.parametrize(
    ("to", "answer", "check", "status", "text", "fix"),
    [
        (
            "get queues.",
            {"err": "error: the server doesn't have a resource type", "code": 1},
            *("queues", "warning", "all work is in one queue", "apply -k deploy"),
        ),
        (
            "get queues.",
            {"err": "x (Forbidden): no", "code": 1},
            "queues",
            "unknown",
            "you may not list Queues",
            "",
        ),
        ("get queues.", {"out": "no"}, "queues", "unknown", "no list", ""),
        (
            "get queues.",
            {"out": json.dumps({"items": [QUEUE_PARTLY_IGNORED]})},
            *("queues", "warning", "Queue physics: why", "docs/queues.md"),
        ),
        (
            "get --raw /version",
            {"err": "Unable to connect", "code": 1},
            "cluster",
            "fault",
            "can't be asked",
            "kubectl",
        ),
        (
            "get --raw /version",
            {"out": '{"gitVersion": "v1.35.4"}'},
            *("cluster", "fault", "Kubernetes v1.35.4: Kubernetes 1.36 or newer is needed", "update"),
        ),
        ("get --raw /version", {"out": '{"gitVersion": "main"}'}, "cluster", "ok", "Kubernetes main", ""),
        (
            ".org/v1/backends",
            {"err": "x (NotFound): y", "code": 1},
            "service",
            "fault",
            "too old",
            "Deployment",
        ),
        (".org/v1/backends", {"out": "[]"}, "service", "fault", "too old", "Deployment"),
        (
            ".org/v1/backends",
            {"err": 'Error from server (Forbidden): x is forbidden: User "u"', "code": 1},
            "service",
            "fault",
            "you may not ask",
            "fluence-view",
        ),
        (
            ".org/v1/openapi.json",
            {"out": '{"info": {"version": "9"}}'},
            "versions",
            "warning",
            "the service 9",
            "pip",
        ),
        (".org/v1/openapi.json", {"out": "{}"}, "versions", "unknown", "doesn't tell", ""),
        (
            "get deployment fluence",
            {"out": deployment(1)},
            "replicas",
            "warning",
            "1 of 2",
            "kubectl describe",
        ),
        ("get deployment fluence", {"out": deployment(0)}, "replicas", "fault", "0 of 2", "kubectl describe"),
        (
            "get deployment fluence",
            {"err": "(Forbidden): no", "code": 1},
            "replicas",
            "unknown",
            "may not look",
            "",
        ),
        (
            "get lease fluence",
            {"out": lease(300)},
            "scheduler",
            "fault",
            "last renewed its Lease 5m ago",
            "kubectl logs",
        ),
        (
            "get lease fluence",
            {"out": lease(1, "")},
            "scheduler",
            "fault",
            "no kube-scheduler leads",
            "kubectl logs",
        ),
        (
            "get lease fluence",
            {"err": "(NotFound): no", "code": 1},
            "scheduler",
            "fault",
            "no lease",
            "apply -k",
        ),
        (
            "get mutatingadmissionpolicy,",
            {"out": installed(MUTATING, f"{MUTATING}binding{ADMISSION}fluence-gate")},
            "policies",
            "warning",
            "there is no mutatingadmissionpolicybinding fluence-gate",
            "docs/security.md",
        ),
        (
            "get validatingadmissionpolicy,",
            {"err": "(Forbidden): no", "code": 1},
            *("policies", "unknown", "you may not list validatingadmissionpolicy objects", ""),
        ),
        (
            "get mutatingwebhookconfiguration fluence-webhook",
            {"err": "(NotFound): no", "code": 1},
            *("webhook", "warning", "there is no mutatingwebhookconfiguration", "apply -k deploy adds it"),
        ),
        (
            "get mutatingwebhookconfiguration fluence-webhook",
            {"err": "(Forbidden): no", "code": 1},
            *("webhook", "unknown", "you may not look", ""),
        ),
        (
            "get mutatingwebhookconfiguration fluence-webhook",
            {"out": registration(bundle="")},
            *(
                "webhook",
                "fault",
                "has no caBundle",
                "kubectl logs -n fluence-system deployment/fluence-webhook",
            ),
        ),
        (
            "create --dry-run=server",
            {"err": REFUSED_CALL, "code": 1},
            *(
                "webhook",
                "fault",
                "pods that ask for devices are refused: failed calling webhook",
                "kubectl logs",
            ),
        ),
        (
            "create --dry-run=server",
            {
                "err": "Error from server (Forbidden): pods is forbidden: User u cannot create resource",
                "code": 1,
            },
            *("webhook", "unknown", "you may not create pods", ""),
        ),
        (
            "create --dry-run=server",
            {"err": 'Error from server (Forbidden): exceeded quota: "q"', "code": 1},
            *("webhook", "unknown", 'not tried: (Forbidden): exceeded quota: "q"', ""),
        ),
        (
            "create --dry-run=server",
            {
                "err": 'admission webhook "devices.fluence.flux-framework.org" denied the request: no qpu',
                "code": 1,
            },
            *("webhook", "ok", "answers", ""),
        ),
        (
            "get serviceaccount fluence",
            {"err": "(NotFound): no", "code": 1},
            *(
                "rights",
                "unknown",
                "there is no serviceaccount fluence: the service runs under another account",
                "",
            ),
        ),
        ("auth can-i", {"out": "no", "code": 1}, "rights", "fault", "create pods/binding", "apply -k deploy"),
        (
            "auth can-i",
            {"out": "no", "err": "Warning: not namespace scoped", "code": 1},
            *("rights", "fault", "create pods/binding", "apply -k deploy"),
        ),
        ("auth can-i", {"err": "cannot impersonate", "code": 1}, "rights", "unknown", "you may not ask", ""),
        (
            ".org/v1/metrics",
            {"out": METRICS.replace("0.0", "2.0")},
            "drift",
            "warning",
            "2 differences",
            "kubectl logs",
        ),
        (".org/v1/metrics", {"out": "x 1\n"}, "drift", "unknown", "doesn't count", ""),
        (
            ".org/v1/metrics",
            {"out": METRICS.replace("0.0", "2.0")},
            "resources",
            "warning",
            "2 edits",
            "configmap",
        ),
        (
            ".org/v1/metrics",
            {"out": METRICS + "fluence_selector_process_failures_total 3.0\n"},
            "resources",
            "warning",
            "selectors of claims couldn't be started 3 times",
            "log of the service",
        ),
        (
            ".org/v1/backends",
            {"out": listed({**DEVICE, "usable": False, "problems": ["its node n1: cordoned"]})},
            "resources",
            "warning",
            "fez can't be used: its node n1: cordoned",
            "kubectl fluence backends",
        ),
        (
            ".org/v1/nodes",
            {"out": listed({**NODE, "schedulable": False, "problems": ["cordoned"]})},
            "nodes",
            "fault",
            "0 of 1 are open",
            "kubectl fluence top nodes",
        ),
        (
            ".org/v1/nodes",
            {"out": listed(NODE, {**NODE, "schedulable": False, "problems": ["deficit: 1 cpu more"]})},
            "nodes",
            "warning",
            "more is in use than there is on n1",
            "kubectl describe node n1",
        ),
    ],
)
def test_each_fault_is_found_with_its_fix(
    to: str,
    answer: dict[str, Any],
    check: str,
    status: str,
    text: str,
    fix: str,
    healthy: Fluence,
    kubectl: Program,
) -> None:
    kubectl.answers(to, **answer)
    ended = healthy("doctor", "-o", "json")
    found = findings(ended)[check]
    assert found[0] == status, found
    assert text in found[1], found
    assert fix in found[2], found
    assert bool(found[2]) == bool(fix)
    assert ended.code == int("fault" in {one[0] for one in findings(ended).values()})


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in POLICIES for name in POLICIES[kind]])
def test_each_policy_that_is_missing_is_reported(
    kind: str, name: str, healthy: Fluence, kubectl: Program
) -> None:
    kubectl.answers(f"get {kind},", out=installed(kind, f"/fluence-{name}"))
    status, text, fix = findings(healthy("doctor", "-o", "json"))["policies"]
    assert (status, text) == (
        "fault" if name in PROTECTING else "warning",
        f"there is no {kind} fluence-{name}",
    )
    assert fix == "kubectl apply -k deploy adds it; docs/security.md says what it is for"


def test_a_gang_that_waits_because_of_a_failure_is_a_fault(healthy: Fluence, kubectl: Program) -> None:
    broken = {**GANG, "why": "PlanningFailed", "reason": "planning failed"}
    kubectl.answers(".org/v1/gangs", out=listed(broken))
    ended = healthy("doctor")
    assert ended.code == 1
    assert "fault    gangs      default/g: planning failed\n" in ended.out
    assert "→ kubectl fluence why gang/g -n default" in ended.out


def test_other_checks_go_on_if_the_service_does_not_answer(healthy: Fluence, kubectl: Program) -> None:
    kubectl.answers(".org/", err='(ServiceUnavailable): no endpoints available for service "x"', code=1)
    for path in ("v1/nodes", "v1/backends", "v1/gangs", "v1/openapi.json", "v1/metrics"):
        kubectl.answers(f".org/{path}", err="(ServiceUnavailable): no endpoints", code=1)
    found = findings(healthy("doctor", "-o", "json"))
    assert found["service"][0] == "fault"
    assert set(found) == {
        "cluster",
        "service",
        "replicas",
        "scheduler",
        "policies",
        "queues",
        "webhook",
        "rights",
    }


def test_a_service_at_an_address_is_examined_without_a_cluster(
    healthy: Fluence, kubectl: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLUENCE_SERVER", "http://127.0.0.1:1")
    kubectl.answers("get --raw /version", err="The connection to the server c:6443 was refused", code=1)
    found = findings(healthy("doctor", "-o", "json"))
    assert found["cluster"][0] == "unknown"
    assert set(found) == {"cluster", "service"}
    assert "http://127.0.0.1:1 can't be reached" in found["service"][1]


@pytest.mark.parametrize(("ready", "status"), [(0, "fault"), (1, "warning"), (2, "ok")])
def test_an_installed_dashboard_is_looked_at(
    ready: int, status: str, healthy: Fluence, kubectl: Program
) -> None:
    assert "dashboard" not in findings(healthy("doctor", "-o", "json"))
    kubectl.answers("get deployment fluence-dashboard", out=deployment(ready))
    assert findings(healthy("doctor", "-o", "json"))["dashboard"][0] == status


def test_rights_are_unknown_without_a_cluster(healthy: Fluence, kubectl: Program) -> None:
    kubectl.answers("auth can-i", err="The connection to the server c:6443 was refused", code=1)
    status, text, fix = findings(healthy("doctor", "-o", "json"))["rights"]
    assert (status, fix) == ("unknown", "")
    assert text == "The connection to the server c:6443 was refused"


def test_missing_replicas_of_the_webhook_are_reported_along_with_its_answer(
    healthy: Fluence, kubectl: Program
) -> None:
    kubectl.answers("get deployment fluence-webhook", out=deployment(1))
    ended = healthy("doctor")
    assert ended.code == 0
    assert "warning  webhook    fluence-webhook: 1 of 2 replicas are ready\n" in ended.out
    assert "ok       webhook    answers\n" in ended.out
    kubectl.answers("get deployment fluence-webhook", err="(NotFound): no", code=1)
    ended = healthy("doctor")
    assert ended.code == 1
    assert "fault    webhook    there is no deployment fluence-webhook\n" in ended.out


def test_a_webhook_at_an_address_needs_no_deployment_and_its_address_is_shown(
    healthy: Fluence, kubectl: Program
) -> None:
    kubectl.answers("get deployment fluence-webhook", err="(NotFound): no", code=1)
    kubectl.answers(
        "get mutatingwebhookconfiguration fluence-webhook", out=registration(url="https://127.0.0.1:9/mutate")
    )
    assert findings(healthy("doctor", "-o", "json"))["webhook"][0] == "ok"
    kubectl.answers("create --dry-run=server", err=REFUSED_CALL, code=1)
    status, _, fix = findings(healthy("doctor", "-o", "json"))["webhook"]
    assert (status, fix) == ("fault", "see that its process answers at https://127.0.0.1:9/mutate")


def test_the_webhook_is_tried_by_a_dry_run(healthy: Fluence, kubectl: Program) -> None:
    healthy("doctor", "-n", "team")
    (call,) = [call for call in kubectl.calls if call[0] == "create"]
    assert call[1] == "--dry-run=server"
    assert call[call.index("-n") + 1] == "team"
    pod = json.loads(kubectl.manifest or b"")
    assert pod["spec"]["schedulerName"] == "fluence"


def packed(file: Path) -> dict[str, str]:
    """The files of a bundle, by their names in it."""
    with tarfile.open(file) as archive:
        return {
            one.name.removeprefix("fluence-support/"): found.read().decode()
            for one in archive
            if (found := archive.extractfile(one)) is not None
        }


def test_bundle_has_findings_answers_objects_and_logs(
    healthy: Fluence, kubectl: Program, tmp_path: Path
) -> None:
    kubectl.answers("get deployments,", out="url: postgresql://ada:s3cret@db/history\n")
    kubectl.answers("logs -n fluence-system", out="ready\n")
    file = tmp_path / "support.tar.gz"
    ended = healthy("doctor", f"--bundle={file}")
    assert ended.code == 0
    found = packed(file)
    assert "cluster" in found["findings.txt"]
    assert json.loads(found["service/gangs.json"])["items"] == [GANG]
    assert found["service/metrics.txt"] == METRICS
    assert found["installation/objects.yaml"] == "url: postgresql://ada:[hidden]@db/history\n"
    assert found["installation/logs.txt"] == "ready\n"
    assert found["missing.txt"] == ""
    assert f"wrote {file}" in ended.err
    assert not any("secret" in " ".join(call) for call in kubectl.calls)


def test_bundle_names_the_parts_that_cannot_be_read(
    healthy: Fluence, kubectl: Program, tmp_path: Path
) -> None:
    kubectl.answers("logs -n fluence-system", err="Error from server (Forbidden): no", code=1)
    file = tmp_path / "support.tar.gz"
    ended = healthy("doctor", f"--bundle={file}")
    found = packed(file)
    assert "installation/logs.txt" not in found
    assert found["missing.txt"] == "installation/logs.txt: (Forbidden): no\n"
    assert "missing.txt in it names what can't be read" in ended.err


def test_bundle_that_cannot_be_written_is_told(healthy: Fluence, tmp_path: Path) -> None:
    ended = healthy("doctor", f"--bundle={tmp_path}/absent/support.tar.gz")
    assert ended.code == 1
    assert "can't be written" in ended.err
    assert "--bundle=FILE" in ended.err


def test_bundle_has_a_name_of_its_own(
    healthy: Fluence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert healthy("doctor", "--bundle").code == 0
    assert packed(tmp_path / "fluence-support.tar.gz")
