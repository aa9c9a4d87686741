"""Each key, option, variable, metric, reason and path that texts name exists, and each one that exists is named."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import click
import pytest

from fluence_extender.apps.cli import serve, webhook
from fluence_extender.apps.kubectl.doctor.checks import POLICIES
from fluence_extender.cluster.api import EVICTED
from fluence_extender.graph.resources_file import RESOURCE_KEYS, TOP_KEYS
from fluence_extender.model.keys import KEYS, Key
from fluence_extender.model.names import DOMAIN, RESOURCE_DOMAIN, STATE_VERSION
from fluence_extender.model.reason import ReasonCode
from fluence_extender.whatif.preemption_preview import PreemptionOutcome
from tests.docs import catalog
from tests.docs.objects import rendered
from tests.docs.reading import COMMENTED, PAGES, ROOT, CodeSpan, spans

README = (ROOT / "README.md").read_text()
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
OURS = re.compile(
    rf"(?<![\w.])(?:requests\.)?((?:(?:demo|producer)\.)?(?:{re.escape(DOMAIN)}|{re.escape(RESOURCE_DOMAIN)})/)"
    r"(\w[\w./-]*)?"
)

OF_OTHERS = {
    "buildah": "oci-archive build-arg",
    "earlier versions": "fluence-births fluence-accounts-pods",
    "fluence": """
        fluence-deviceplugin jobid FLUENCE_RESOURCE_CAPACITY WEBHOOK_ADDR WEBHOOK_CONFIG WEBHOOK_NAMESPACE
        WEBHOOK_SERVICE
    """,
    "flux-k8s": "plugins",
    "fluxqueue": "fluxqueue FluxJob FluxionScheduler River",
    "Grafana": "grafana",
    "Helm": "set-file take-ownership",
    "ingress-nginx": "auth-url",
    "kube-scheduler": "TaintTolerationComparisonOperators",
    "kubectl-fluence": "select-backend",
    "Volcano": "volcano binpack minAvailable queue",
    "KubeRay": "preRunningDeadlineSeconds",
    "Kueue": """
        HoldAndDrain ResourceFlavor admissionChecks borrowWithinCohort borrowingLimit cohortName fairSharing
        flavorFungibility lendingLimit namespaceSelector nominalQuota parentName performance queueingStrategy
        reclaimWithinCohort stopPolicy withinClusterQueue
    """,
    "Kubeflow Trainer": "runtimePatches trainingRuntimeSpec",
    "Kubernetes": """
        DoNotSchedule FailedMount Recreate ResourceQuota activeDeadlineSeconds
        backoffLimitPerIndex ca_file count failedIndexes minAvailable ordinals podset-preferred-topology
        allNodes perDeviceNodeSelection bindingFailureConditions bindingTimeout
        podset-required-topology podset-slice-required-topology podset-unconstrained-topology priorityClassName
        schedulingConstraints scopeSelector topology etc kubernetes authentication-config oidc-issuer-url
    """,
    "Cluster Autoscaler": """
        safe-to-evict scheduler-config-file scale-down-unneeded-time ignoredResourceGroups
        scale-down-utilization-threshold cluster-autoscaler-status
    """,
    "Karpenter": "do-not-disrupt consolidateAfter expireAfter NodeOverlay",
    "Slurm": """
        SBATCH sbatch squeue scancel scontrol sinfo sacct sreport sshare sprio salloc srun sbcast sattach root
        job-name nodes ntasks ntasks-per-node cpus-per-task mem gres time partition account qos priority nice hold
        dependency array switches constraint nodelist exclude reservation exclusive requeue begin mail-type test-only
        pty start afterok afternotok afterany after aftercorr singleton
        SLURM_PROCID SLURM_ARRAY_TASK_ID SLURM_NTASKS SLURM_JOB_NODELIST SLURM_JOB_ID
    """,
    "oauth2-proxy": """
        provider oidc-issuer-url client-id client-secret-file cookie-secret email-domain http-address redirect-url
        upstream pass-authorization-header set-authorization-header skip-provider-button cookie-refresh scope
        offline_access oidc-client-id COOKIE_SECRET
    """,
    "Prometheus": "process_resident_memory_bytes",
    "QRMI": "qrmi_ibm_qrs_endpoint QRMI_IBM_QRS_ENDPOINT _QRMI_IBM_QRS_IAM_APIKEY _QRMI_IBM_QRS_SERVICE_CRN",
    "tests": """
        FLUENCE_RACERS FLUXION_BASE test_gang_waits_for_the_gates_of_others_and_leaves_them_alone
    """,
}
"""The names of others that the product itself doesn't have."""


OF_THE_MACHINE = ("identity",)
"""The options whose default depends on the machine."""

PLACEHOLDER = re.compile(r"[A-Z]{1,9}(?:-[a-z]+)*")
OF_A_BACKEND = re.compile(r"FLUXION_(?!BACKEND$|LIBRARY$)")
"""The variables that are named after an attribute of a backend; pages write ``FLUXION_<KEY>``."""


@cache
def of_others() -> frozenset[str]:
    """Return the words in `OF_OTHERS`."""
    return frozenset(word for words in OF_OTHERS.values() for word in words.split())


@cache
def texts() -> str:
    """Return the text of all pages."""
    return "\n".join(page.read_text() for page in PAGES)


def named(word: str) -> bool:
    """Whether a page names ``word`` in code."""
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", code()) is not None


@cache
def code() -> str:
    """Return all that pages show as code."""
    blocks = re.findall(r"^ *```.*?^ *```$|^ {4,}.*$", texts(), re.MULTILINE | re.DOTALL)
    return "\n".join([*blocks, *(span.text for span in spans())])


def unknown_keys(text: str) -> set[str]:
    """Return the keys in our domains of a text that nothing of ours reads or writes."""
    known = catalog.keys()
    prefixes = tuple(key[:-1] for key in known if key.endswith("*"))
    found = {domain + name.rstrip("./") for domain, name in OURS.findall(text) if name}
    shortened = {
        f"{DOMAIN}/{name}"
        for name in re.findall(r"`…/(\w+(?:-[a-z]+)*)", text)
        if name not in of_others() and f"/{name}" not in catalog.sources()
    }
    return {
        key
        for key in found | shortened
        if key not in known
        and not key.startswith(prefixes)
        and not key.startswith((f"{DOMAIN}/{STATE_VERSION}", f"demo.{DOMAIN}/run-for"))
    }


@pytest.mark.parametrize("file", [*PAGES, *COMMENTED], ids=lambda path: str(path.relative_to(ROOT)))
def test_keys_that_are_named_are_ours(file: Path) -> None:
    assert unknown_keys(file.read_text()) == set()


def test_unknown_key_is_found() -> None:
    text = f"`{DOMAIN}/group-size`, {DOMAIN}/gruop: x, `…/releesed`, `…/group`, {RESOURCE_DOMAIN}/qpu"
    assert unknown_keys(text) == {f"{DOMAIN}/gruop", f"{DOMAIN}/releesed"}


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.key)
def test_key_is_explained_on_its_page(key: Key) -> None:
    page = (ROOT / key.page).read_text()
    whole = key.key.rstrip("*")
    names = [span.text for span in spans() if span.where.startswith(key.page)]
    assert whole in page or any(key.short in name for name in names)


def unknown_words(span: CodeSpan) -> list[str]:
    """Return the words of a code span that neither the product nor anything that it works with has."""
    if " " in span.text or span.text.rstrip("/") in catalog.present():
        return []
    words = re.findall(r"(?<![\w<-])[A-Za-z_]\w*(?:-[a-z]\w*)*", span.text)
    known = catalog.words() | of_others() | catalog.settings() | catalog.metrics()
    return [word for word in words if word not in known and not PLACEHOLDER.fullmatch(word)]


def test_names_in_running_text_exist() -> None:
    found = {span.where: (span.text, words) for span in spans() if (words := unknown_words(span))}
    assert found == {}


def test_word_that_does_not_exist_is_found() -> None:
    assert unknown_words(CodeSpan("", "fluence_drifts_total")) == ["fluence_drifts_total"]
    assert unknown_words(CodeSpan("", "RefusedByFilter")) == ["RefusedByFilter"]
    assert unknown_words(CodeSpan("", "CannotSteeer")) == ["CannotSteeer"]
    assert unknown_words(CodeSpan("", "spec.schedulingGruop.podGroupName")) == ["schedulingGruop"]


def test_options_that_are_named_exist() -> None:
    known = catalog.flags()
    missing = {
        (span.where, flag)
        for span in spans()
        for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]*", span.text)
        if span.text.startswith("--")
        and flag not in known
        and f'"{flag}"' not in catalog.sources()
        and flag[2:] not in of_others()
    }
    assert missing == set()


def test_options_are_documented() -> None:
    missing = {
        (command, option.opts[-1])
        for command, option in catalog.options()
        if not any(named(name) for name in (*option.opts, *option.secondary_opts))
    }
    assert missing == set()


@pytest.mark.parametrize(("command", "page"), [(serve, "operations.md"), (webhook, "webhook.md")])
def test_table_of_options_has_each_with_its_variables_choices_and_default(
    command: click.Command, page: str
) -> None:
    text = (ROOT / "docs" / page).read_text().replace("\\|", " or ")
    rows = [row for row in text.splitlines() if row.startswith("| `--")]
    for option in command.params:
        assert isinstance(option, click.Option)
        (row,) = [one for one in rows if re.search(rf"`{option.opts[0]}[ `]", one.split("|")[1])] or [""]
        assert all(f"`{name}`" in row for name in option.envvar or ()), option.envvar
        default = option.default[0] if isinstance(option.default, list) else option.default
        shown = f"{default:g}" if isinstance(default, float) else default
        if isinstance(shown, str | int) and shown and option.name not in OF_THE_MACHINE:
            assert str(shown) in row.split("|")[-2], row
        if isinstance(option.type, click.Choice):
            assert [one for one in option.type.choices if not re.search(rf"[` ]{one}[` ]", text)] == []


def test_outcomes_of_a_preemption_are_explained() -> None:
    rows = re.findall(r"^\| `([A-Z]\w+)` \|", (ROOT / "docs" / "whatif.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(PreemptionOutcome)


def test_commands_are_shown() -> None:
    shown = {
        name
        for name, _ in catalog.commands()
        if re.search(rf"{name}\b", code())
        or re.search(rf"^  {name.rpartition(' ')[2]}  ", code(), re.MULTILINE)
    }
    assert {name for name, _ in catalog.commands()} == shown


def test_variables_that_are_named_exist() -> None:
    found = set(catalog.VARIABLE.findall(texts()))
    assert len(found) > 40
    assert found - catalog.variables() - of_others() == set()


def test_variables_are_documented() -> None:
    missing = {name for name in catalog.variables() if not named(name)}
    assert {name for name in missing if not OF_A_BACKEND.match(name)} == set()


def test_metrics_that_are_named_exist() -> None:
    found = {
        name
        for span in spans()
        for name in re.findall(r"\bfluence_\w+", span.text)
        if not name.startswith("fluence_extender.") and f"{name}/" not in span.text
    }
    assert found - catalog.metrics() - {"fluence_extender"} == set()
    assert len(found) > 10


def test_metrics_are_documented() -> None:
    assert {name for name in catalog.metrics() if not named(name)} == set()


def test_reasons_are_explained_on_the_first_page() -> None:
    table = README.partition("## When it goes wrong")[2]
    for why in (*ReasonCode, EVICTED, "ResourcesRefused"):
        assert f"`{why}" in table, why


def test_paths_and_parameters_of_the_state_api_are_listed() -> None:
    pages = "".join(
        (ROOT / "docs" / f"{name}.md").read_text() for name in ("api", "monitoring", "operations")
    )
    for path, parameters in catalog.paths().items():
        (row, *_) = re.findall(rf"^.*`{re.escape(path)}`.*$", pages, re.MULTILINE) or [""]
        assert row, path
        for parameter in parameters:
            assert f"{parameter}=" in row, (path, parameter)


def test_paths_that_are_named_exist() -> None:
    known = {path.split("/")[2] for path in catalog.paths() if path.startswith("/v1/")}
    named_paths = set(re.findall(r"/v1/([a-z]+)", code())) - {"namespaces"}
    assert named_paths <= known


def test_keys_of_resources_yaml_are_explained() -> None:
    section = OPERATIONS.partition("## resources.yaml")[2].partition("\n## ")[0]
    assert [key for key in (*TOP_KEYS, *RESOURCE_KEYS) if f"`{key}" not in section] == []


def test_admission_policies_are_explained() -> None:
    names = [f"fluence-{name}" for each in POLICIES.values() for name in each]
    assert [name for name in names if not named(name)] == []


def test_failure_policies_are_as_deployed() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    rows = re.findall(r"^\| (`fluence-[^|]+) \| `(Fail|Ignore)` \|", page, re.MULTILINE)
    deployed = {
        one["metadata"]["name"]: one["spec"]["failurePolicy"]
        for one in rendered("deploy")
        if one["kind"].endswith("AdmissionPolicy")
    }
    assert {name: how for names, how in rows for name in re.findall(r"`([^`]+)`", names)} == deployed
