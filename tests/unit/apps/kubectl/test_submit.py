"""select, apply and create: the choice, the call of kubectl, the messages, the exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.apps.kubectl.manifests import (
    PLAIN,
    POD,
    PREFIX,
    REQUIRE,
    load,
    notes_of,
    result_of,
    without_pins,
)
from tests.unit.apps.kubectl.programs import ATTRIBUTES, Fluence, Program

OFFERS = """
resources:
  - {type: accelerator, name: gpu-a100, attributes: {cost_usd: "3.2", memory_gb: "80"}}
  - {type: accelerator, name: gpu-l4, attributes: {cost_usd: "0.8", memory_gb: "24"}}
"""
Say = Callable[[str], None]


@pytest.fixture(autouse=True)
def files(fluence: Fluence, attributes: str) -> None:
    Path("pod.yaml").write_text(POD)
    Path("plain.yaml").write_text(PLAIN)


def test_select_says_that_nothing_asks_for_a_backend(fluence: Fluence) -> None:
    manifest = "kind: Pod\nspec: {schedulerName: fluence}\n"
    shown = fluence("select", "-f", "-", stdin=manifest)
    assert (shown.code, shown.out) == (0, manifest)
    assert "no object asks for a backend" in shown.err


def test_select_prints_the_manifest_with_the_pin_and_every_reason(
    fluence: Fluence, attributes: str, kubectl: Program, offers: Say
) -> None:
    offers(OFFERS)
    ended = fluence("select", "-f", "pod.yaml", attributes)
    assert ended.code == 0
    (pod,) = load(ended.out)
    assert notes_of(pod)[REQUIRE] == result_of(pod)["chosen"] == "gpu-l4"
    assert ended.err.splitlines() == [
        'selected backend "gpu-l4" for Pod/train (policy "require:min_memory_gb=24,min-cost")',
        "  dropped gpu-a100: min-cost: cost_usd 3.2, best is 0.8",
        "  dropped gpu-t4: not offered by the cluster scheduler",
    ]
    assert [call[:2] for call in kubectl.calls] == [["get", "configmap"]]


def test_untouched_documents_are_byte_identical(fluence: Fluence, attributes: str, kubectl: Program) -> None:
    for content in (PLAIN, PLAIN.replace("\n", "\r\n"), "", "a: [", "\ufeff" + PLAIN, PLAIN.rstrip()):
        Path("some.yaml").write_bytes(content.encode())
        assert fluence("apply", "-f", "some.yaml").code == 0
        assert kubectl.manifest == content.encode()
        assert fluence("select", "-f", "some.yaml").out == content
    Path("some.yaml").write_bytes(b"\xff\xfe")
    assert fluence("create", "-f", "some.yaml").code == 0
    assert kubectl.manifest == b"\xff\xfe"
    assert all(call[0] != "get" for call in kubectl.calls)
    text = f"{PLAIN}---\n{POD}--- # next\n{PLAIN}"
    Path("some.yaml").write_text(text)
    fluence("apply", "-f", "some.yaml", attributes)
    assert kubectl.manifest is not None
    made = kubectl.manifest.decode()
    assert made.startswith(f"{PLAIN}---\napiVersion: v1\nkind: Pod\n")
    assert made.endswith(f"\n--- # next\n{PLAIN}")
    assert f"    {REQUIRE}: gpu-l4\n" in made


@pytest.mark.parametrize("verb", ["apply", "create"])
@pytest.mark.parametrize("code", [0, 1, 3])
def test_kubectl_gets_all_other_flags_and_its_exit_code_is_ours(
    verb: str, code: int, fluence: Fluence, kubectl: Program, attributes: str
) -> None:
    if code:
        kubectl.answers(f"{verb} -f -", err="error: no\n", code=code)
    words = ("-n", "-f", "--server-side", "--field-manager=me", "-oyaml", "-l=a=b", "--context", "c")
    ended = fluence(verb, *words, "-f", "plain.yaml", attributes, "--validate", "x", "--", "-R")
    assert ended.code == code
    (call,) = kubectl.calls
    assert call[:3] == [verb, "-f", "-"]
    known = ["--context=c", "--field-manager=me", "--namespace=-f", "--output=yaml", "--selector=a=b"]
    assert sorted(call[3:8]) == known
    assert call[8:] == ["--server-side", "--validate", "x", "--", "-R"]


@pytest.mark.parametrize(
    "words",
    [
        ("-f", "pod.yaml"),
        ("-fpod.yaml",),
        ("-f=pod.yaml",),
        ("--filename", "pod.yaml"),
        ("--filename=pod.yaml",),
        ("-Rf", "pod.yaml"),
        ("-Rf=pod.yaml",),
        ("-f", "po?.yaml"),
        ("-f", "."),
        ("-R", "-f."),
        ("--recursive=true", "-f", "deep"),
        ("-f", "deep/er/pod.yml,plain.yaml"),
    ],
)
def test_files_are_named_in_every_form(words: tuple[str, ...], fluence: Fluence, tmp_path: Path) -> None:
    Path("deep/er").mkdir(parents=True)
    Path("deep/er/pod.yml").write_text(POD)
    (tmp_path / "attributes").write_text(ATTRIBUTES)
    Path("attributes.yaml").unlink()
    ended = fluence("select", *words, "--attributes", str(tmp_path / "attributes"))
    assert ended.code == 0, ended
    assert any(REQUIRE in notes_of(one) for one in load(ended.out))


def test_several_sources_are_one_stream_in_order(fluence: Fluence, attributes: str) -> None:
    Path("one.json").write_text(json.dumps(load(POD)[0]))
    ended = fluence("select", "-f", "one.json", "-f-", "-f=plain.yaml", attributes, stdin=POD.rstrip())
    first, second, third = load(ended.out)
    assert notes_of(first)[REQUIRE] == notes_of(second)[REQUIRE] == "gpu-l4"
    assert third["kind"] == "ConfigMap"


def test_kustomization_is_built_by_kubectl(fluence: Fluence, kubectl: Program, attributes: str) -> None:
    kubectl.answers("kustomize base", out=POD)
    for words in (("-k", "base"), ("-kbase",), ("--kustomize=base",)):
        assert REQUIRE in notes_of(load(fluence("select", *words, attributes).out)[0])
    logged = 'E1121 17:54:03.957772   30205 run.go:72] "command failed" err="must be a \\"directory\\""'
    for message in ('error: must be a "directory"', logged):
        kubectl.answers("kustomize base", err=f"{message}\n", code=1)
        ended = fluence("apply", "-k", "base")
        assert ended.code == 1
        assert ended.err == 'error: kustomization base can\'t be built: must be a "directory"\n'


def test_url_is_read(fluence: Fluence, attributes: str, tmp_path: Path) -> None:
    serve = "import http.server as h; s = h.HTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler)"
    program = f"{serve}; print(s.server_port, flush=True); s.serve_forever()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        ended = fluence("select", "-f", f"{url}/pod.yaml", attributes)
        missing = fluence("select", "-f", f"{url}/nothing.yaml", attributes)
        server.kill()
    assert REQUIRE in notes_of(load(ended.out)[0])
    assert missing.code == 1
    assert missing.err == f"error: {url}/nothing.yaml can't be read: HTTP 404 File not found\n"


def test_offers_are_read_from_the_same_cluster(fluence: Fluence, kubectl: Program, attributes: str) -> None:
    words = ("--context", "c", "--kubeconfig=k", "-n", "mine", "-s", "https://x", "--as=me")
    connection = {"--context=c", "--kubeconfig=k", "--server=https://x", "--as=me"}
    ended = fluence("select", "-f", "pod.yaml", attributes, "--fluence-ns", "flux", *words)
    assert ended.code == 0
    call, asked = kubectl.calls
    assert call[:5] == ["get", "configmap", "fluence-resources", "-n", "flux"]
    assert set(call[7:-1]) == connection
    # The ConfigMap isn't there: the service may know.
    path = "/apis/fluence.flux-framework.org/v1/backends"
    assert asked[:3] == ["get", "--raw", path]
    assert set(asked[3:-1]) == connection


def test_offers_of_the_service_need_neither_file_nor_config_map(fluence: Fluence, kubectl: Program) -> None:
    devices = [
        {
            "backend": name,
            "path": f"/cluster/{name}",
            "type": "accelerator",
            "total": total,
            "attributes": {"cost_usd": cost, "memory_gb": "24", "vendor": "v"},
        }
        for name, cost, total in (("gpu-l4", "0.80", 1), ("gpu-a100", "3.20", 1), ("gpu-gone", "0.10", 0))
    ]
    kubectl.answers(".org/v1/backends", out=json.dumps({"items": devices, "metadata": {"leading": True}}))
    ended = fluence("select", "-f", "pod.yaml")
    assert ended.code == 0, ended
    (document,) = load(ended.out)
    assert notes_of(document)[REQUIRE] == "gpu-l4"
    assert 'offers are from the service (no "fluence-resources")' in ended.err
    assert "gpu-gone" not in ended.err


def test_qubits_of_the_services_devices_are_counted(fluence: Fluence, kubectl: Program) -> None:
    pools = [
        {"backend": name, "path": f"/cluster/{name}/qpu{number}/qubit", "type": "qubit", "total": count}
        | {"attributes": {"cost_usd": "1", "memory_gb": "30"}}
        for name, count in (("small", 5), ("large", 9))
        for number in range(2)
    ]
    kubectl.answers(".org/v1/backends", out=json.dumps({"items": pools, "metadata": {}}))
    Path("pod.yaml").write_text(POD.replace("require:min_memory_gb=24,min-cost", "max-qubits"))
    assert notes_of(load(fluence("select", "-f", "pod.yaml").out)[0])[REQUIRE] == "large"


def test_offers_with_attributes_need_no_file(fluence: Fluence, offers: Say) -> None:
    offers(OFFERS)
    ended = fluence("select", "-f", "pod.yaml")
    assert notes_of(load(ended.out)[0])[REQUIRE] == "gpu-l4"


def test_offers_may_be_under_another_key(fluence: Fluence, offers: Callable[..., None]) -> None:
    offers(OFFERS, key="graph.yaml")
    assert notes_of(load(fluence("select", "-f", "pod.yaml").out)[0])[REQUIRE] == "gpu-l4"


@pytest.mark.parametrize(
    ("text", "output"),
    [
        (None, 'offerings (no "fluence-resources")'),
        ("resources: [{name: a}]", "missing required field 'type'"),
        ("# nothing\n", "no device names found in resource graph"),
    ],
)
def test_offers_that_cannot_be_read_are_a_note(
    text: str | None, output: str, fluence: Fluence, attributes: str, offers: Say
) -> None:
    if text is not None:
        offers(text)
    ended = fluence("select", "-f", "pod.yaml", attributes)
    assert ended.code == 0
    (pod,) = load(ended.out)
    first = ended.err.splitlines()[0]
    assert first.startswith("note: could not read scheduler offerings (")
    assert output in first
    assert first.endswith("; selecting without intersection")
    assert result_of(pod)["notes"] == [first.removeprefix("note: ")]


def test_pinned_object_is_left_alone_unless_forced(
    fluence: Fluence, attributes: str, kubectl: Program
) -> None:
    pinned = POD.replace("  annotations:\n", f"  annotations:\n    {REQUIRE}: mine\n")
    Path("pod.yaml").write_text(pinned)
    ended = fluence("apply", "-f", "pod.yaml", attributes)
    assert ended.code == 0
    assert kubectl.manifest == pinned.encode()
    message = (
        'note: Pod/train already pinned to "mine"; skipping selection (use --force-select to override)\n'
    )
    assert ended.err == message
    forced = fluence("select", "-f", "pod.yaml", attributes, "--force-select")
    assert notes_of(load(forced.out)[0])[REQUIRE] == "gpu-l4"
    again = fluence("select", "-f-", attributes, "--force-select", stdin=forced.out)
    assert without_pins(again.out) == without_pins(forced.out)
    assert again.out.count(REQUIRE) == 1


@pytest.mark.parametrize("mode", ["client", "server"])
def test_dry_run_prints_and_lets_kubectl_try(
    mode: str, fluence: Fluence, attributes: str, kubectl: Program
) -> None:
    flag = "--dry-run" if mode == "client" else "--dry-run=server"
    ended = fluence("apply", "-f", "pod.yaml", attributes, flag, "--confirm")
    assert ended.code == 0
    assert REQUIRE in ended.out
    assert ended.out.endswith("ran apply\n")
    assert kubectl.calls[-1] == ["apply", "-f", "-", f"--dry-run={mode}"]
    shown = fluence("apply", "-f", "pod.yaml", attributes, flag, "-o", "yaml")
    assert REQUIRE not in shown.out
    fluence("apply", "-f", "pod.yaml", attributes, "--dry-run=none")
    assert kubectl.calls[-1] == ["apply", "-f", "-"]


@pytest.mark.parametrize(("answer", "applied"), [("y\n", True), ("YES\n", True), ("n\n", False), ("", False)])
def test_confirm_asks_before_anything_is_applied(
    answer: str, applied: bool, fluence: Fluence, attributes: str, kubectl: Program
) -> None:
    ended = fluence("apply", "-f", "pod.yaml", attributes, "--confirm", stdin=answer)
    assert ended.code == 0
    assert "Apply with the selections above? [y]es / [n]o (cancel): " in ended.err
    assert ended.err.index("selected backend") < ended.err.index("Apply with")
    assert (kubectl.manifest is not None) == applied
    assert ("cancelled; nothing applied" in ended.err) == (not applied)


_ON_TERMINAL = """
import os, sys
os.setsid()
os.open(sys.argv[1], os.O_RDWR)  # the first terminal a session opens is its own
sys.argv[1:] = sys.argv[2:]
from fluence_extender.apps.kubectl.main import main
sys.exit(main())
"""


@pytest.mark.parametrize(("answer", "applied"), [(b"y\n", True), (b"n\n", False)])
def test_confirm_asks_the_terminal_when_the_manifest_comes_from_stdin(
    answer: bytes, applied: bool, attributes: str, kubectl: Program
) -> None:
    mine, its = os.openpty()
    os.write(mine, answer)
    words = ["apply", "-f", "-", attributes, "--confirm"]
    ended = subprocess.run(
        [sys.executable, "-c", _ON_TERMINAL, os.ttyname(its), *words],
        input=POD.encode(),
        capture_output=True,
        timeout=30,
        check=False,
    )
    seen = os.read(mine, 10_000)
    os.close(its)
    os.close(mine)
    assert b"Apply with the selections above? [y]es / [n]o (cancel): " in seen
    assert ended.returncode == 0, ended
    assert (kubectl.manifest is not None) == applied
    assert (b"cancelled; nothing applied" in ended.stderr) == (not applied)


def test_confirm_without_a_terminal_applies_nothing(attributes: str, kubectl: Program) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "fluence_extender.apps.kubectl.main", "apply", "-f-", attributes, "--confirm"],
        input=POD.encode(),
        capture_output=True,
        start_new_session=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 1
    assert b"error: --confirm has nobody to ask" in ended.stderr
    assert kubectl.manifest is None


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("apply",), 2, "no -f/--filename given"),
        (("select", "-n", "x"), 2, "no -f/--filename given"),
        (("apply", "-f"), 2, "Option '-f' requires an argument (see kubectl fluence apply --help)"),
        (("apply", "-f", "pod.yaml", "--attributes"), 2, "Option '--attributes' requires an argument"),
        (("apply", "-f", "pod.yaml", "--fluence-ns"), 2, "Option '--fluence-ns' requires an argument"),
        (("apply", "-f", "pod.yaml", "--cost-tol"), 2, "Option '--cost-tol' requires an argument"),
        (
            ("apply", "-f", "pod.yaml", "--cost-tol=10abc"),
            2,
            "Invalid value for '--cost-tol': '10abc' is no amount",
        ),
        (
            ("apply", "-f", "pod.yaml", "--cost-tol", "-1"),
            2,
            "Invalid value for '--cost-tol': '-1' is no amount",
        ),
        (
            ("apply", "-f", "pod.yaml", "--dry-run=maybe"),
            2,
            "Invalid value for '--dry-run': 'maybe' is not one of",
        ),
        (("apply", "-f", "pod.yaml", "--confirm=maybe"), 2, "--confirm: 'maybe' is neither true nor false"),
        (
            ("select", "-f", "pod.yaml", "--force-selct"),
            2,
            "No such option '--force-selct'. Did you mean '--force-select'?",
        ),
        (("apply", "-f", "a", "-k", "b"), 2, "-f and -k can't be given together"),
        (("apply", "-f", "-", "-f", "-"), 2, "standard input can be read once"),
        (("apply", "-f", "missing.yaml"), 1, "missing.yaml doesn't exist; -f takes a file, a directory"),
        (("apply", "-f", "pod.yaml"), 1, "Pod/train requests selection but no --attributes file was given"),
        (("apply", "-f", "pod.yaml", "--attributes=no"), 1, "read attribute file no: No such file"),
        (
            ("apply", "-f", "pod.yaml", "--attributes=pod.yaml"),
            1,
            "pod.yaml:2: apiVersion: is an unknown key",
        ),
    ],
)
def test_wrong_usage_is_one_message_and_nothing_is_applied(
    words: tuple[str, ...], code: int, message: str, fluence: Fluence, kubectl: Program
) -> None:
    ended = fluence(*words)
    assert ended.code == code
    assert ended.out == ""
    errors = [line for line in ended.err.splitlines() if not line.startswith("note: could not read")]
    assert all(line.startswith("error: ") for line in errors)
    assert any(line.startswith(f"error: {message}") for line in errors)
    assert kubectl.manifest is None


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("mincost", 'unknown policy "mincost"; did you mean "min-cost"?'),
        ("min-queue", 'policy "min-queue": no candidate has attribute "queue_size"'),
        ("require:min_memory_gb=999", 'policy "require:min_memory_gb=999" removed all candidates: gpu-a100'),
    ],
)
def test_one_failing_object_ends_the_command(
    policy: str, message: str, fluence: Fluence, attributes: str, kubectl: Program
) -> None:
    Path("bad.yaml").write_text(POD.replace("require:min_memory_gb=24,min-cost", policy))
    ended = fluence("apply", "-f", "pod.yaml", "-f", "bad.yaml", "-f", "plain.yaml", attributes)
    assert ended.code == 1
    assert ended.err.splitlines()[-1].startswith(f"error: Pod/train: selection failed: {message}")
    assert kubectl.manifest is None


def test_cost_tolerance_may_be_joined_or_separate(fluence: Fluence, attributes: str) -> None:
    Path("pod.yaml").write_text(POD.replace("require:min_memory_gb=24,min-cost", "min-cost,max-memory_gb"))
    for words in (("--cost-tol=0.45",), ("--cost-tol", "0.45")):
        ended = fluence("select", "-f", "pod.yaml", attributes, *words)
        assert notes_of(load(ended.out)[0])[REQUIRE] == "gpu-l4"


def test_a_file_with_a_policy_that_is_no_yaml_is_an_error_with_its_line(
    fluence: Fluence, attributes: str, kubectl: Program
) -> None:
    Path("bad.yaml").write_text(POD + "  wrong: [\n")
    ended = fluence("apply", "-f", "bad.yaml", attributes)
    assert ended.code == 1
    assert ended.err.startswith("error: bad.yaml:14: isn't valid YAML")
    assert kubectl.manifest is None


def test_a_call_without_files_is_passed_to_kubectl(fluence: Fluence, kubectl: Program) -> None:
    assert fluence("create", "deployment", "web", "--image=x", "--dry-run=server").code == 0
    assert kubectl.calls == [["create", "--dry-run=server", "deployment", "web", "--image=x"]]


def test_missing_kubectl_is_an_error(fluence: Fluence, attributes: str, programs: Path) -> None:
    (programs / "kubectl").unlink()
    ended = fluence("apply", "-f", "plain.yaml")
    assert ended.code == 1
    assert ended.err.startswith("error: kubectl is not on the PATH; install it")


def test_ten_megabytes_without_a_request_pass(fluence: Fluence, kubectl: Program) -> None:
    content = (PLAIN + "---\n").encode() * (10 * 2**20 // len(PLAIN))
    Path("large.yaml").write_bytes(content)
    assert fluence("apply", "-f", "large.yaml").code == 0
    assert kubectl.manifest == content


def test_object_of_another_scheduler_is_left_with_a_note(
    fluence: Fluence, attributes: str, kubectl: Program
) -> None:
    other = POD.replace("schedulerName: fluence", "schedulerName: other")
    Path("pod.yaml").write_text(other)
    ended = fluence("apply", "-f", "pod.yaml", attributes)
    assert kubectl.manifest == other.encode()
    assert "Pod/train has a select-policy and isn't for schedulerName fluence" in ended.err
    grouped = other.replace("  name: train", f"  labels: {{{PREFIX}group: g}}\n  name: train")
    Path("pod.yaml").write_text(grouped)
    assert REQUIRE in notes_of(load(fluence("select", "-f", "pod.yaml", attributes).out)[0])


def test_annotations_without_meaning_have_one_note(fluence: Fluence, attributes: str) -> None:
    wrong = f"    {PREFIX}select-shot: '5'\n"
    Path("pod.yaml").write_text(POD.replace("  annotations:\n", f"  annotations:\n{wrong}"))
    ended = fluence("select", "-f", "pod.yaml", attributes)
    message = f"note: Pod/train: {PREFIX}select-shot has no meaning; did you mean {PREFIX}select-shots?"
    assert ended.err.splitlines().count(message) == 1
    Path("pod.yaml").write_text(POD.replace("select-policy", "select-polcy"))
    ended = fluence("select", "-f", "pod.yaml", attributes)
    assert ended.out == POD.replace("select-policy", "select-polcy")
    assert ended.err == (
        f"note: Pod/train: {PREFIX}select-polcy has no meaning; did you mean {PREFIX}select-policy?\n"
    )


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_large_output_is_complete_and_a_closed_pipe_is_no_failure(unbuffered: str, fluence: Fluence) -> None:
    content = (PLAIN + "---\n").encode() * 5000
    Path("large.yaml").write_bytes(content)
    command = [sys.executable, "-m", "fluence_extender.apps.kubectl.main", "select", "-f", "large.yaml"]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    whole = subprocess.run(command, env=environment, capture_output=True, timeout=30, check=True)
    assert whole.stdout == content
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline() == b"apiVersion: v1\n"
        process.stdout.close()
        # Nothing of the closed pipe, only what the whole output had beside it.
        assert process.stderr.read() == whole.stderr
    assert process.returncode == 141
