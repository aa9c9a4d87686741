"""Which commands there are. Each is loaded only when it is run, so that the others cost it no time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

Run = Callable[[Sequence[str]], int]


@dataclass(frozen=True, slots=True)
class Command:
    """One command; ``place`` is ``module:function``, ``usage`` what its own help shows.

    ``forwards`` says that it reads its flags beside kubectl's, so that only it knows which word is one.
    """

    name: str
    summary: str
    place: str
    usage: str
    forwards: bool = False

    def load(self) -> Run:
        """The function that runs it: arguments after its name -> exit code."""
        module, _, function = self.place.partition(":")
        run: Run = getattr(import_module(module), function)
        return run


_SELECTION = """\
Flags:
  -f, --filename FILE    file, directory, URL, or - for standard input; may be given several times
  -k, --kustomize DIR    what `kubectl kustomize DIR` makes
  -R, --recursive        directories with what is below them
      --attributes FILE  what backends can do and cost (YAML or JSON); several files add up
      --fluence-ns NS    namespace of the ConfigMap fluence-resources, which says what is offered (kube-system)
      --cost-tol USD     costs this close to the best one count as equal (0)
      --force-select     choose anew where a backend is named already
"""
_SUBMISSION = """\
      --confirm          ask on the terminal before anything is applied
      --dry-run[=MODE]   print the manifest, and let kubectl try it: client (the default), server, or none
"""


def _usage(verb: str, what: str, flags: str, rest: str) -> str:
    return f"""\
{what}

Usage:
  kubectl fluence {verb} -f FILE [flags]

{flags}
{rest}
Annotations, all of them fluence.flux-framework.org/...:
  select-policy         comma-separated steps, left to right: min-ATTR, max-ATTR[:tol=N], require:min_ATTR=N,
                        require:max_ATTR=N, require:ATTR=VALUE, online-only, prefer:NAME
  select-candidates     names that may be chosen
  select-constraints    min_ATTR=N, max_ATTR=N or ATTR=VALUE, as require would take them
  select-shots          shots that a task is priced for (N_SHOTS of a container, else 1000)
"""


_QUESTION = """\
      --server URL       ask the service there, instead of through the API server's proxy
      --fluence-ns NS    namespace of the service (kube-system)
"""
_NAMESPACE = """\
  -n, --namespace NS     namespace that is asked about (that of the kubeconfig's context)
"""
_ALL = """\
  -A, --all-namespaces   all namespaces
"""
_NO_HEADERS = """\
      --no-headers       tables without headings
"""


def _question(verb: str, words: str, what: str, flags: str, outputs: str = "json|yaml|wide|name") -> str:
    return f"""\
{what}

Usage:
  kubectl fluence {verb}{f" {words}" if words else ""} [flags]

Flags:
  -o, --output FORM      {outputs.replace("|", ", ")}
{flags}{_QUESTION}
Flags that say which cluster and who is asking, such as --context, are kubectl's.
"""


_FORWARDED = "All other flags are kubectl's and are handed on as they are.\n"

COMMANDS = (
    Command(
        "apply",
        "Choose a backend for what asks for one, then kubectl apply",
        "fluence_extender.apps.kubectl.submit:apply",
        _usage(
            "apply",
            "Choose a backend for each object that asks for one, then apply everything with kubectl.",
            _SELECTION + _SUBMISSION,
            _FORWARDED,
        ),
        forwards=True,
    ),
    Command(
        "create",
        "The same with kubectl create",
        "fluence_extender.apps.kubectl.submit:create",
        _usage(
            "create",
            "Choose a backend for each object that asks for one, then create everything with kubectl.",
            _SELECTION + _SUBMISSION,
            _FORWARDED,
        ),
        forwards=True,
    ),
    Command(
        "select",
        "Choose, and print the manifest instead of applying it",
        "fluence_extender.apps.kubectl.submit:select",
        _usage(
            "select",
            "Choose a backend for each object that asks for one, and print the manifest; nothing is applied.",
            _SELECTION,
            "Flags that say which cluster, such as --context, are kubectl's.\n",
        ),
        forwards=True,
    ),
    Command(
        "jobs",
        "The gangs, where each stands and why",
        "fluence_extender.apps.kubectl.jobs:jobs",
        _question(
            "jobs",
            "[NAME]",
            "Lists the gangs (a pod on its own is one too): state, members placed, age, nodes, backend, reason.",
            _NAMESPACE
            + _ALL
            + "  -w, --watch            go on, with a line for each gang that changes\n"
            + "      --gone             with gangs whose pods are gone, for an hour\n"
            + _NO_HEADERS,
        ),
    ),
    Command(
        "why",
        "Why a pod, a Job or a gang waits, and what would fit",
        "fluence_extender.apps.kubectl.why:why",
        _question(
            "why",
            "[pod/|job/|deployment/|statefulset/|gang/]NAME",
            "Tells why a pod, a Job or a gang is where it is: the reason, what it asks for, what is free, what would\n"
            "fit, and what has happened to it so far.",
            _NAMESPACE,
            "json|yaml|wide",
        ),
    ),
    Command(
        "graph",
        "The cluster as a tree with what is held and free",
        "fluence_extender.apps.kubectl.tree:graph",
        _question(
            "graph",
            "",
            "Shows the cluster as a tree: topology, nodes, virtual devices, with bars of what is held by gangs (#),\n"
            "used by other pods (+) and free (.).",
            "      --nodes            every node, however many there are\n"
            "      --json             the tree as JSON\n"
            "      --jgf              the resource graph in JSON Graph Format, as the matcher sees it\n"
            "      --dot              the tree for Graphviz\n",
            "json|yaml|wide",
        ),
    ),
    Command(
        "backends",
        "The virtual devices, what is free, who holds the rest",
        "fluence_extender.apps.kubectl.backends:backends",
        _question(
            "backends",
            "[NAME]",
            "Lists the virtual devices: type, units, attributes, who holds them, why one can't be used.",
            _NO_HEADERS,
        ),
    ),
    Command(
        "top",
        "Which nodes are full, which gangs hold the most",
        "fluence_extender.apps.kubectl.top:top",
        _question(
            "top",
            "[nodes|jobs]",
            "Shows the nodes, the fullest first, or the gangs, those first that hold the most.",
            _NAMESPACE + _ALL + _NO_HEADERS,
        ),
    ),
    Command(
        "simulate",
        "Would these manifests fit, where, if not why",
        "fluence_extender.apps.kubectl.simulate:simulate",
        _question(
            "simulate",
            "-f FILE",
            "Asks whether the pods of some manifests would fit now, and where; if not why, when at the earliest, and\n"
            "how much less would fit. Ends with 3 when something doesn't fit. Changes nothing.",
            "  -f, --filename FILE    file, directory, URL, or - for standard input; may be given several times\n"
            "  -k, --kustomize DIR    what `kubectl kustomize DIR` makes\n"
            "  -R, --recursive        directories with what is below them\n" + _NAMESPACE,
            "json|yaml",
        ),
    ),
    Command(
        "doctor",
        "Checks the installation and says what to do",
        "fluence_extender.apps.kubectl.doctor:doctor",
        _question(
            "doctor",
            "",
            "Looks at everything that has to be in place: cluster, service, versions, replicas, scheduler,\n"
            "gate, rights, nodes, drift, resources, gangs. Ends with 1 when something is wrong. Changes nothing.",
            "",
            "json|yaml",
        ),
    ),
    Command(
        "explain",
        "What a label or annotation of ours does",
        "fluence_extender.apps.kubectl.keys:explain",
        """\
Explains a label, annotation, gate or resource name of ours, or lists them all.

Usage:
  kubectl fluence explain [KEY] [flags]

Flags:
  -o, --output FORM      json, yaml, wide, name
      --no-headers       tables without headings

KEY may be given without its domain: kubectl fluence explain group-size
""",
    ),
    Command(
        "completion",
        "Make a shell complete kubectl-fluence",
        "fluence_extender.apps.kubectl.shells:completion",
        """\
Prints the script that makes a shell complete kubectl-fluence. As kubectl fluence it is completed by kubectl's own
completion already.

Usage:
  kubectl fluence completion bash|zsh|fish

  source <(kubectl fluence completion bash)
""",
    ),
    Command(
        "version",
        "Print the version",
        "fluence_extender.apps.kubectl.main:version",
        "Print the version.\n\nUsage:\n  kubectl fluence version\n",
    ),
    Command(
        "help",
        "Explain a command",
        "fluence_extender.apps.kubectl.main:show_help",
        "Explain a command.\n\nUsage:\n  kubectl fluence help [COMMAND]\n",
    ),
)


def command(name: str) -> Command | None:
    """The command of that name."""
    return next((one for one in COMMANDS if one.name == name), None)


def overview() -> str:
    """What ``kubectl fluence --help`` shows."""
    width = max(len(one.name) for one in COMMANDS) + 3
    lines = [f"  {one.name:<{width}}{one.summary}" for one in COMMANDS]
    return "\n".join(
        [
            "Choose a backend for your jobs, ask why they wait, see the cluster.",
            "",
            "Usage:",
            "  kubectl fluence COMMAND [flags]",
            "",
            "Commands:",
            *lines,
            "",
            "kubectl fluence COMMAND --help explains one of them.",
            "",
        ]
    )
