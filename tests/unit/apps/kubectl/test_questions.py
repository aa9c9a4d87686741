"""Questions: the requests to the service, and the form of the answers."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from fluence_extender.model.names import KUEUE_QUEUE_LABEL, SUSPENDED_FOR_ANNOTATION
from tests.unit.apps.kubectl.programs import Fluence, Program

NOW = "2026-06-30T12:00:00Z"
GIB = 2**30


def gang(name: str, state: str = "bound", **fields: Any) -> dict[str, Any]:
    members = fields.pop("members", [("", "")])
    return {
        "namespace": "default",
        "name": name,
        "convention": "group",
        "state": state,
        "reason": "",
        "why": "",
        "size": len(members),
        "created": NOW,
        "members": [
            {"pod": f"{name}-{number}", "uid": f"u{number}", "node": node, "backend": backend}
            for number, (node, backend) in enumerate(members)
        ],
        **fields,
    }


def node(name: str, cpu: float, held: float = 0, others: float = 0, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "schedulable": not fields.get("problems"),
        "problems": [],
        "levels": {},
        "allocatable": {"cpu": cpu, "memory": 8 * GIB, "pods": 110},
        "held": {"cpu": held},
        "others": {"cpu": others},
        "free": {"cpu": cpu - held - others, "memory": 8 * GIB, "pods": 110},
        **fields,
    }


def device(backend: str, held: int = 0, **fields: Any) -> dict[str, Any]:
    return {
        "backend": backend,
        "name": backend,
        "path": f"/cluster/{backend}",
        "type": "qpu",
        "node": "",
        "attributes": {"vendor": "ibm"},
        "total": 1,
        "held": held,
        "free": 1 - held,
        "hidden": 0,
        "holders": [{"namespace": "other", "pod": "long"}] if held else [],
        "usable": True,
        "problems": [],
        **fields,
    }


GANGS = [
    gang("vqe", members=[("n1", "ibm_fez"), ("n2", "")]),
    gang("big", "waiting", reason="busy: 2 of 4 fit now, short of cpu", why="Busy", size=4),
]
NODES = [
    node("n1", 4, held=2, others=1, levels={"zone": "z1"}),
    node("n2", 8, held=1, levels={"zone": "z1"}),
    node("n10", 4, problems=["cordoned"]),
]
DEVICES = [device("ibm_fez", held=1), device("lab", attributes={"vendor": "lab"}, node="n1")]
STORY = {
    **GANGS[1],
    "asks": [
        {
            "members": 4,
            "requests": {"cpu": 3, "memory": GIB, "pods": 1},
            "devices": {"qpu": 1},
            "requires": {"vendor": "ibm"},
        }
    ],
    "fitting": 2,
    "lacking": ["cpu"],
    "history": [
        {"at": NOW, "until": NOW, "what": "seen", "pod": "big-0", "detail": "", "count": 1},
        {"at": NOW, "until": NOW, "what": "waiting", "pod": "", "detail": "busy", "count": 3},
    ],
    "forgotten": 2,
    "leading": True,
}


def listed(items: list[dict[str, Any]], leading: bool = True) -> str:
    return json.dumps({"items": items, "metadata": {"leading": leading}})


@pytest.fixture
def service(kubectl: Program, fluence: Fluence) -> Fluence:
    """Return ``kubectl fluence`` for a cluster with a service."""
    kubectl.answers(".org/v1/gangs/default/big", out=json.dumps(STORY))
    kubectl.answers(
        ".org/v1/gangs/default/vqe", out=json.dumps({**GANGS[0], "asks": [], "history": [], "forgotten": 0})
    )
    kubectl.answers(".org/v1/gangs", out=listed(GANGS))
    kubectl.answers(".org/v1/nodes", out=listed(NODES))
    kubectl.answers(".org/v1/backends", out=listed(DEVICES))
    kubectl.answers(".org/v1/allocations", out=listed(ALLOCATIONS))
    kubectl.answers("config view", out="")
    return fluence


ALLOCATIONS = [
    {
        "namespace": "default",
        "pod": f"vqe-{number}",
        "gang": "vqe",
        "node": f"n{number + 1}",
        "core": 1.5,
        "memory": GIB,
        "gpu": 0,
        "devices": {"qpu": 1} if number == 0 else {},
        "backend": "",
    }
    for number in range(2)
]


def cells(line: str) -> list[str]:
    return [cell for cell in line.split("   ") if cell.strip()]


def test_jobs_are_a_table_of_the_contexts_namespace(service: Fluence, kubectl: Program) -> None:
    kubectl.answers("config view", out="team")
    shown = service("jobs", "--context", "c")
    assert shown.code == 0
    head, vqe, big = shown.out.splitlines()
    assert head.split() == ["NAME", "STATE", "PLACED", "AGE", "NODES", "BACKEND", "STARTS", "IN", "REASON"]
    assert vqe.split()[:3] == ["vqe", "bound", "2/2"]
    assert "n1, n2" in vqe
    assert big.endswith("busy: 2 of 4 fit now, short of cpu")
    raw = next(call for call in kubectl.calls if "--raw" in call)
    path = "/apis/fluence.flux-framework.org/v1/gangs?namespace=team"
    assert raw[:3] == ["get", "--raw", path]
    assert raw[3] == "--context=c"


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (("-A",), ".org/v1/gangs"),
        (("-n", "team"), ".org/v1/gangs?namespace=team"),
        (("-nteam",), ".org/v1/gangs?namespace=team"),
        (("--namespace=a b",), ".org/v1/gangs?namespace=a+b"),
        (("-A", "--gone"), ".org/v1/gangs?gone=true"),
        (("-A", "--fluence-ns=hpc"), ".org/v1/gangs"),
    ],
)
def test_requests_follow_the_flags(
    words: tuple[str, ...], path: str, service: Fluence, kubectl: Program
) -> None:
    assert service("jobs", *words).code == 0
    assert next(call for call in kubectl.calls if "--raw" in call)[2].endswith(path)


def test_an_expected_start_is_shown(service: Fluence, kubectl: Program) -> None:
    soon = (datetime.now(UTC) + timedelta(minutes=30, seconds=30)).isoformat()
    kubectl.answers(".org/v1/gangs/default/big", out=json.dumps({**STORY, "expected_start": soon}))
    kubectl.answers(".org/v1/gangs", out=listed([GANGS[0], {**GANGS[1], "expected_start": soon}]))
    head, _, big = service("jobs").out.splitlines()
    assert "STARTS IN" in head
    assert " 30m " in big
    assert "in 30m, as far as running pods say" in service("why", "big").out


def test_gangs_of_all_namespaces_have_a_namespace_column(service: Fluence) -> None:
    head, first, *_ = service("jobs", "-A").out.splitlines()
    assert (head.split()[0], first.split()[0]) == ("NAMESPACE", "default")


def test_programs_get_json_yaml_and_names(service: Fluence) -> None:
    assert json.loads(service("jobs", "-o", "json").out) == {"items": GANGS}
    assert yaml.safe_load(service("jobs", "-oyaml").out) == {"items": GANGS}
    assert service("jobs", "-o=name").out == "gang/vqe\ngang/big\n"
    assert "KIND" in service("jobs", "-o", "wide").out
    assert service("backends", "-oname").out == "backend/ibm_fez\nbackend/lab\n"
    assert service("top", "-o", "name").out.splitlines()[0].startswith("node/")
    assert json.loads(service("graph", "--json").out)["cluster"]["children"]
    refused = service("jobs", "-o", "xml")
    assert refused.code == 2
    assert refused.err == (
        "error: Invalid value for '-o' / '--output': 'xml' is not one of 'json', 'yaml', 'wide', 'name'"
        " (see kubectl fluence jobs --help)\n"
    )


def test_tables_are_colored_only_on_a_terminal(service: Fluence, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    plain = {words: service(*words).out for words in (("jobs",), ("graph",), ("top",))}
    assert not any("\033[" in text for text in plain.values())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "\033[32mbound" in service("jobs").out
    assert "\033[32m#####\033[0m" in service("graph").out
    assert re.sub(r"\033\[\d*m", "", service("graph").out) == plain["graph",]
    monkeypatch.setenv("NO_COLOR", "1")
    assert service("jobs").out == plain["jobs",]


def test_a_watch_shows_what_changes_and_nothing_else(
    service: Fluence, kubectl: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter(
        [
            listed(GANGS),
            listed([GANGS[0], {**GANGS[1], "state": "planned", "reason": "placed, being bound"}]),
            listed(GANGS[:1]),
        ]
    )

    def tick(_: float) -> None:
        answer = next(looks, None)
        if answer is None:
            raise KeyboardInterrupt
        kubectl.answers(".org/v1/gangs", out=answer)

    monkeypatch.setattr("fluence_extender.apps.kubectl.jobs.sleep", tick)
    shown = service("jobs", "-w")
    assert shown.code == 130
    lines = shown.out.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "vqe", "big", "big", "big"]
    assert lines[3].split()[1] == "planned"
    assert lines[4] == "big is gone"


def test_why_shows_reason_request_free_amounts_and_what_would_fit(service: Fluence) -> None:
    shown = service("why", "big", "-n", "default")
    assert shown.code == 0, shown
    lines = [line.strip() for line in shown.out.splitlines()]
    assert lines[0] == "gang default/big: waiting"
    assert lines[1].split(None, 1) == ["reason", "busy: 2 of 4 fit now, short of cpu"]
    assert lines[2].endswith("4 members of 3 cpu, 1Gi memory, 1 qpu (vendor=ibm)")
    assert lines[3].endswith("8 cpu, 16Gi memory on 2 of 3 nodes; 1 cordoned")
    assert lines[4].endswith("2 of 4 by these amounts: n2 (2)")
    assert lines[5].endswith("4 with at most 1750m cpu each")
    assert lines[6].endswith("ibm_fez: 0 of 1 free; held by other/long")
    assert lines[7].endswith("lab: 1 of 1 free; isn't vendor=ibm")
    assert lines[8] == "history"
    assert lines[9].endswith("seen big-0")
    assert lines[10].endswith("waiting (3 times): busy")
    assert lines[11] == "(2 entries in between are forgotten)"
    assert json.loads(service("why", "big", "-o", "json").out) == STORY


@pytest.mark.parametrize(
    "words",
    [
        ("vqe",),
        ("gang/vqe",),
        ("vqe-1",),
        ("pod/vqe-1",),
        ("pod", "vqe-0"),
        ("job/vqe",),
        ("jobs.batch", "vqe"),
        ("Job.batch/vqe",),
        ("po", "vqe-1"),
        ("sts/vqe",),
        ("statefulsets.apps", "vqe"),
        ("deploy", "vqe"),
        ("gangs/vqe",),
        ("mpijob/vqe",),
        ("rayjobs.ray.io", "vqe"),
        ("trainjob/vqe",),
        ("jobset/vqe",),
        ("lws/vqe",),
    ],
)
def test_why_finds_a_gang_by_its_pods_and_its_workload(words: tuple[str, ...], service: Fluence) -> None:
    shown = service("why", *words)
    assert shown.out.startswith("gang default/vqe: bound\n"), shown
    assert "n1 (1), n2 (1)" in shown.out
    assert "ibm_fez" in shown.out


def test_a_gang_with_the_exact_name_comes_before_one_with_similar_pods(
    service: Fluence, kubectl: Program
) -> None:
    alike = gang("a", members=[("n1", "")])
    alike["members"][0]["pod"] = "vqe-big-0"
    kubectl.answers(".org/v1/gangs", out=listed([alike, *GANGS]))
    for words in (("vqe",), ("job/vqe",)):
        assert service("why", *words).out.startswith("gang default/vqe: bound\n")


def test_why_of_an_unknown_name_is_an_error(service: Fluence) -> None:
    for words in (("nobody",), ("pod/vqe",), ("job/other",), ("rayjob/other",)):
        shown = service("why", *words)
        assert shown.code == 1
        assert shown.err.startswith("error: no pod, Job or gang ")
    assert service("why").code == 2
    assert service("why", "secret/x").err == (
        "error: why knows pod, job, deployment, statefulset, jobset, leaderworkerset, mpijob, raycluster, rayjob, "
        'trainjob, gang, not "secret"\n'
    )
    assert service("why", "job.batch.volcano.sh/vqe").err.endswith('not "job.batch.volcano.sh"\n')
    assert service("why", "vqe", "-A").code == 2


def test_why_of_a_deployment_shows_a_pod_that_waits(fluence: Fluence, kubectl: Program) -> None:
    kubectl.answers("config view", out="")
    pods = [gang(f"web-{state}", state, members=[("", "")]) for state in ("bound", "waiting")]
    for one in pods:
        one["members"][0]["pod"] = one["name"]
    story = {**pods[1], "asks": [], "history": [], "forgotten": 0}
    kubectl.answers(".org/v1/gangs/default/web-waiting", out=json.dumps(story))
    kubectl.answers(".org/v1/gangs", out=listed(pods))
    for words in (("deploy/web",), ("deployment", "web"), ("sts/web",), ("web",)):
        assert fluence("why", *words).out.startswith("gang default/web-waiting: waiting\n")


def array(name: str, *states: str) -> list[dict[str, Any]]:
    """Return the gangs of a Job whose pods are gangs of their own."""
    reason = {"waiting": "busy: 0 of 1 fit now, short of cpu"}
    return [
        gang(
            f"{name}-{number}",
            state,
            convention="pod",
            owner=f"Job/{name}",
            reason=reason.get(state, ""),
            members=[("n1" if state == "bound" else "", "")],
        )
        for number, state in enumerate(states)
    ]


def test_an_array_is_one_row_with_totals_and_its_name_shows_each(service: Fluence, kubectl: Program) -> None:
    kubectl.answers(".org/v1/gangs", out=listed([*GANGS, *array("sweep", *["bound"] * 4, *["waiting"] * 8)]))
    *_, row = service("jobs", "--no-headers").out.splitlines()
    assert [one.strip() for one in cells(row)] == [
        "sweep (12 gangs)",
        "4 bound, 8 waiting",
        "4/12",
        cells(row)[3].strip(),
        "n1",
        "-",
        "-",
        "8 times busy: 0 of 1 fit now, short of cpu",
    ]
    assert len(service("jobs", "--no-headers").out.splitlines()) == 3
    assert len(service("jobs", "sweep", "--no-headers").out.splitlines()) == 12
    assert len(json.loads(service("jobs", "-o", "json").out)["items"]) == 14


def test_why_of_an_array_is_told_in_sum_with_how_to_make_it_one_gang(
    service: Fluence, kubectl: Program
) -> None:
    gangs = array("sweep", *["bound"] * 4, *["waiting"] * 8)
    story = {**gangs[4], "asks": [], "history": [], "forgotten": 0}
    kubectl.answers(".org/v1/gangs/default/sweep-4", out=json.dumps(story))
    kubectl.answers(".org/v1/gangs", out=listed(gangs))
    head, together, first, shown, *_ = service("why", "job/sweep").out.splitlines()
    assert head == "Job/sweep: 12 gangs of one pod: 4 bound, 8 waiting"
    assert "label fluence.flux-framework.org/group" in together
    assert "completionMode: Indexed" in together
    assert (first, shown) == ("the first of those that are waiting:", "gang default/sweep-4: waiting")
    assert service("why", "pod/sweep-4-0").out.startswith("gang default/sweep-4")


def test_jobs_are_chosen_by_names_labels_and_state_and_put_in_order(
    service: Fluence, kubectl: Program
) -> None:
    old = gang("old", created="2026-06-29T12:00:00Z")
    kubectl.answers(".org/v1/gangs", out=listed([*GANGS, old]))
    kubectl.answers("get pods --selector=team=a", out="default/vqe-1 default/other ")

    def names(*words: str) -> list[str]:
        return [line.partition("/")[2] for line in service("jobs", *words, "-o", "name").out.splitlines()]

    assert names("vqe", "old") == ["vqe", "old"]
    assert names("-l", "team=a") == ["vqe"]
    assert names("--state", "waiting") == ["big"]
    assert names("--sort-by", "age")[0] == "old"
    assert names("--sort-by=size")[0] == "big"
    assert names("--sort-by", "name") == ["big", "old", "vqe"]
    missing = service("jobs", "vqe", "nobody")
    assert (missing.code, missing.err) == (
        1,
        "error: no gang nobody in namespace default; kubectl fluence jobs -A lists all\n",
    )


def test_runs_of_a_gang_that_is_submitted_again_are_told_apart(service: Fluence, kubectl: Program) -> None:
    again = gang("train", "committed", size=2, members=[("n1", ""), ("n2", ""), ("n3", ""), ("", "")])
    for number, member in enumerate(again["members"]):
        member.update(run=f"run-{number // 2}", ended=number < 2)
    entries = [
        ("seen", "train-0"),
        ("complete", ""),
        ("finished", ""),
        ("released", "x"),
        ("seen", "train-2"),
    ]
    history = [
        {"at": NOW, "until": NOW, "what": what, "pod": pod, "detail": "", "count": 1} for what, pod in entries
    ]
    kubectl.answers(".org/v1/gangs", out=listed([again]))
    story = {**again, "asks": [], "history": history, "forgotten": 0}
    kubectl.answers(".org/v1/gangs/default/train", out=json.dumps(story))
    (row,) = service("jobs", "--no-headers").out.splitlines()
    assert [one.strip() for one in cells(row)][2] == "1/2"
    assert "n1" not in row
    *_, before, last = service("why", "train").out.splitlines()
    assert before == "  submitted again"
    assert last.endswith("seen train-2")


@pytest.mark.parametrize(
    ("scheduler", "told"), [("fluenec", "fluenec"), (None, "default-scheduler"), ("fluence", "")]
)
def test_why_of_a_pod_of_another_scheduler_asks_whether_fluence_was_meant(
    scheduler: str | None, told: str, service: Fluence, kubectl: Program
) -> None:
    spec = {"containers": [], **({"schedulerName": scheduler} if scheduler else {})}
    for kind, body in (("Pod", spec), ("Job", {"template": {"spec": spec}})):
        found = {"kind": kind, "metadata": {"name": "lost"}, "spec": body}
        kubectl.answers("get pods,jobs,deployments,statefulsets lost", out=json.dumps({"items": [found]}))
        kubectl.answers(f"get {kind.lower()}s lost", out=json.dumps(found))
        for words in (("lost",), (f"{kind.lower()}/lost",)):
            shown = service("why", *words)
            assert shown.code == 1
            if told:
                assert shown.err == (
                    f"error: {kind} default/lost has schedulerName {told}, so fluence doesn't place it; "
                    "did you mean schedulerName: fluence?\n"
                )
            else:
                assert "no pod, Job or gang lost" in shown.err


@pytest.mark.parametrize(("notes", "told"), [({}, True), ({SUSPENDED_FOR_ANNOTATION: "placement"}, False)])
def test_why_of_a_job_that_its_user_has_suspended_says_so(
    notes: dict[str, str], told: bool, service: Fluence, kubectl: Program
) -> None:
    spec = {"suspend": True, "template": {"spec": {"containers": [], "schedulerName": "fluence"}}}
    found = {"kind": "Job", "metadata": {"name": "lost", "annotations": notes}, "spec": spec}
    kubectl.answers("get jobs lost", out=json.dumps(found))
    shown = service("why", "job/lost")
    assert shown.code == 1
    assert ("Job default/lost is suspended by its user" in shown.err) is told


def test_why_of_a_job_that_kueue_has_to_resume_says_so(service: Fluence, kubectl: Program) -> None:
    meta = {
        "name": "lost",
        "labels": {KUEUE_QUEUE_LABEL: "team"},
        "annotations": {SUSPENDED_FOR_ANNOTATION: "placement"},
    }
    spec = {"suspend": True, "template": {"spec": {"containers": [], "schedulerName": "fluence"}}}
    kubectl.answers("get jobs lost", out=json.dumps({"kind": "Job", "metadata": meta, "spec": spec}))
    assert "Job default/lost waits for Kueue" in service("why", "job/lost").err


def test_why_repeats_what_has_no_effect(service: Fluence, kubectl: Program) -> None:
    note = "annotation fluence.flux-framework.org/group-sise does nothing: did you mean group-size?"
    kubectl.answers(".org/v1/gangs/default/big", out=json.dumps({**STORY, "notes": [note]}))
    assert f"  note      {note}\n" in service("why", "big").out


def test_part_of_a_workload_is_found_by_its_name_and_by_the_workloads(
    fluence: Fluence, kubectl: Program
) -> None:
    kubectl.answers("config view", out="")
    part = gang("js/w")
    kubectl.answers(".org/v1/gangs?namespace=default", out=listed([part, gang("jsw")]))
    kubectl.answers(
        ".org/v1/gangs/default/js/w", out=json.dumps({**part, "asks": [], "history": [], "forgotten": 0})
    )
    for name in ("js", "js/w"):
        assert fluence("jobs", name, "-n", "default", "-o", "name").out == "gang/js/w\n"
    assert fluence("why", "js/w").code == 0


def test_gang_that_is_gone_is_found_by_the_pods_that_it_had(fluence: Fluence, kubectl: Program) -> None:
    kubectl.answers("config view", out="")
    gone = {**gang("low", "gone", reason="its pods are gone: preempted by gang default/high"), "members": []}
    gone["former"] = ["low-a", "other"]
    story = {**gone, "asks": [], "history": [], "forgotten": 0}
    kubectl.answers(".org/v1/gangs/default/low", out=json.dumps(story))
    kubectl.answers(".org/v1/gangs", out=listed([*GANGS, gone]))
    for words in (("pod/other",), ("low-a",), ("job/low",)):
        assert "preempted by gang default/high" in fluence("why", *words).out


def test_other_names_of_commands_are_suggested(service: Fluence) -> None:
    shown = service("gangs")
    assert shown.code == 2
    assert shown.err.startswith('error: unknown command "gangs"; did you mean "jobs"?')


def test_backends_are_listed_with_their_holders(service: Fluence) -> None:
    head, fez, lab = service("backends").out.splitlines()
    assert head.split()[:5] == ["BACKEND", "TYPE", "TOTAL", "HELD", "FREE"]
    assert fez.split()[:5] == ["ibm_fez", "qpu", "1", "1", "0"]
    assert "other/long" in fez
    assert "vendor=lab" in lab
    bare = service("backends", "--no-headers").out.splitlines()
    assert [line.split() for line in bare] == [fez.split(), lab.split()]


def test_parts_of_a_backend_are_counted_together(service: Fluence, kubectl: Program) -> None:
    pools = [
        device("ibm_fez", type="qubit", total=5, held=2, free=3, path=f"/cluster/ibm_fez/qpu{number}/qubit")
        for number in range(2)
    ]
    kubectl.answers(".org/v1/backends", out=listed(pools))
    (row,) = service("backends", "--no-headers").out.splitlines()
    assert row.split()[:5] == ["ibm_fez", "qubit", "10", "4", "6"]
    assert len(service("backends", "-o", "wide").out.splitlines()) == 3


def test_a_backend_with_several_types_is_one_row(service: Fluence, kubectl: Program) -> None:
    types = {"qdevice": 1, "qpu": 1, "qubit": 156}
    devices = [device("ibm_fez", type=kind, total=total, free=total) for kind, total in types.items()]
    kubectl.answers(".org/v1/backends", out=listed(devices))
    (row,) = service("backends", "--no-headers").out.splitlines()
    assert [cell.strip() for cell in cells(row)][:5] == [
        "ibm_fez",
        "qdevice, qpu, qubit",
        "1, 1, 156",
        "0, 0, 0",
        "1, 1, 156",
    ]


def test_top_shows_the_fullest_first(service: Fluence) -> None:
    head, *rows = service("top").out.splitlines()
    assert head.startswith("NODE")
    assert [row.split()[0] for row in rows] == ["n1", "n2", "n10"]
    assert "[##########+++++.....]" in rows[0]
    assert "3/4" in rows[0]
    assert rows[2].endswith("cordoned")
    shown = service("top", "jobs", "-A").out.splitlines()[1].split()
    assert shown[:5] == ["default", "vqe", "2", "3", "2Gi"]
    assert service("top", "pods").code == 2


def test_graph_is_a_tree_with_bars(service: Fluence) -> None:
    lines = service("graph").out.splitlines()
    assert lines[0].startswith("cluster")
    assert [line.split("  ")[0].rstrip() for line in lines[:5]] == [
        "cluster",
        "├─ zone z1",
        "│",
        "│",
        "└─ n10",
    ]
    assert "├─ n1 " in lines[2]
    assert "[#####++...]" in lines[2]
    assert lines[4].endswith("cordoned")
    assert any("ibm_fez (qpu)" in line and "1/1" in line for line in lines)
    assert service("graph", "--jgf", "--json").code == 2


def test_many_nodes_are_summed_up_by_default(service: Fluence, kubectl: Program) -> None:
    kubectl.answers(".org/v1/nodes", out=listed([node(f"n{number}", 4) for number in range(100)]))
    assert "100 nodes" in service("graph").out
    assert "n99" in service("graph", "--nodes").out
    assert "n99" in service("graph", "-o", "wide").out


def test_the_matchers_graph_is_printed_as_it_is(service: Fluence, kubectl: Program) -> None:
    kubectl.answers(".org/v1/graph", out='{"graph":{"nodes":[],"edges":[]}}')
    assert service("graph", "--jgf").out == '{"graph":{"nodes":[],"edges":[]}}\n'


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (
            'Error from server (Forbidden): nodes.fluence.flux-framework.org is forbidden: User "u" cannot list',
            "you may not ask the service fluence-system/fluence; an administrator allows it with kubectl create"
            " clusterrolebinding fluence-view --clusterrole=fluence-view --user=YOU",
        ),
        (
            "Error from server (Forbidden): you may not list nodes; an administrator grants it with RBAC",
            "error: you may not list nodes; an administrator grants it with RBAC",
        ),
        (
            "Error from server: the API server can't be asked who may see this: no answer",
            "error: the API server can't be asked who may see this: no answer",
        ),
        (
            "Error from server (ServiceUnavailable): the server is currently unable to handle the request",
            "no replica of the service fluence-system/fluence leads now; ask again in a few seconds, or see",
        ),
        (
            "Error from server (NotFound): the server could not find the requested resource",
            "has no /v1/nodes as kubectl-fluence",
        ),
        (
            "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?",
            "the cluster can't be asked: The connection to the server 127.0.0.1:1 was refused",
        ),
        (
            "error: You must be logged in to the server (Unauthorized)",
            "the cluster doesn't know you; log in again",
        ),
    ],
)
def test_each_failure_to_reach_the_service_is_one_line(
    output: str, message: str, service: Fluence, kubectl: Program
) -> None:
    kubectl.answers(".org/v1/nodes", err=output + "\n", code=1)
    shown = service("top")
    assert (shown.code, shown.out) == (1, "")
    assert message in shown.err
    assert shown.err.startswith("error: ")
    assert len(shown.err.splitlines()) == 1


def test_a_cluster_without_the_service_is_told_from_an_old_service(
    service: Fluence, kubectl: Program
) -> None:
    missing = "Error from server (NotFound): the server could not find the requested resource\n"
    kubectl.answers(".org/v1/nodes", err=missing, code=1)
    assert "has no /v1/nodes as kubectl-fluence" in service("top").err
    kubectl.answers("/apis/fluence.flux-framework.org", err=missing, code=1)
    assert "the cluster serves no /apis/fluence.flux-framework.org; install the service" in service("top").err


def test_why_goes_on_without_nodes_that_the_user_may_not_list(service: Fluence, kubectl: Program) -> None:
    refused = "Error from server (Forbidden): you may not list nodes; an administrator grants it with RBAC\n"
    kubectl.answers(".org/v1/nodes", err=refused, code=1)
    shown = service("why", "big")
    assert (shown.code, shown.out.splitlines()[0]) == (0, "gang default/big: waiting")
    assert not any(line.startswith("  free ") for line in shown.out.splitlines())
    assert shown.err.startswith("note: what is free isn't shown: you may not list nodes")


def test_what_others_have_is_counted(service: Fluence, kubectl: Program) -> None:
    hidden = json.dumps({"items": GANGS, "metadata": {"leading": True, "hidden": 3}})
    kubectl.answers(".org/v1/gangs", out=hidden)
    shown = service("jobs", "-A")
    assert shown.code == 0
    assert shown.err == "note: 3 more are in namespaces whose pods you may not list\n"
    kubectl.answers(".org/v1/backends", out=listed([device("ibm_fez", held=True) | {"hidden": 2}]))
    assert "other/long, 2 of other namespaces" in service("backends").out


@pytest.mark.parametrize("answer", ["[]", "{}", "<html>", '{"items": 1}'])
def test_a_service_of_another_version_is_an_error(answer: str, service: Fluence, kubectl: Program) -> None:
    kubectl.answers(".org/v1/gangs", out=answer)
    shown = service("jobs")
    assert shown.code == 1
    assert "same version of both" in shown.err or "gave no JSON" in shown.err


def test_an_answer_of_a_standby_has_a_note(service: Fluence, kubectl: Program) -> None:
    kubectl.answers(".org/v1/nodes", out=listed(NODES, leading=False))
    shown = service("top")
    assert shown.code == 0
    assert shown.err == "note: answered by a standby replica: it shows what it sees of the cluster\n"


@pytest.mark.parametrize(
    "verb", ["jobs", "why", "graph", "backends", "top", "doctor", "explain", "completion"]
)
def test_unknown_flags_and_words_are_errors(verb: str, service: Fluence) -> None:
    shown = service(verb, "--frobnicate")
    assert (shown.code, shown.out) == (2, "")
    assert shown.err.splitlines()[0] == (
        f"error: No such option '--frobnicate' (see kubectl fluence {verb} --help)"
    )
    if verb != "jobs":
        assert service(verb, "a", "b", "c").code == 2
    assert service(verb, "-q").code == 2


def test_members_that_have_failed_are_not_placed(service: Fluence, kubectl: Program) -> None:
    lossy = gang(
        "train", "bound", size=4, members=[("n1", ""), ("n2", ""), ("n3", ""), ("n1", ""), ("n2", "")]
    )
    for number, (ended, failed) in enumerate(((True, True), (True, False), (True, True))):
        lossy["members"][number].update(ended=ended, failed=failed)
    kubectl.answers(".org/v1/gangs", out=listed([lossy]))
    (row,) = service("jobs", "--no-headers").out.splitlines()
    assert "3/4" in row.split()
