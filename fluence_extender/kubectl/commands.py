"""Which commands there are. Each is loaded only when it is run, so that the others cost it no time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

Run = Callable[[Sequence[str]], int]


@dataclass(frozen=True, slots=True)
class Command:
    """One command; ``place`` is ``module:function``, ``usage`` what its own help shows."""

    name: str
    summary: str
    place: str
    usage: str

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


_FORWARDED = "All other flags are kubectl's and are handed on as they are.\n"

COMMANDS = (
    Command(
        "apply",
        "Choose a backend for what asks for one, then kubectl apply",
        "fluence_extender.kubectl.submit:apply",
        _usage(
            "apply",
            "Choose a backend for each object that asks for one, then apply everything with kubectl.",
            _SELECTION + _SUBMISSION,
            _FORWARDED,
        ),
    ),
    Command(
        "create",
        "The same with kubectl create",
        "fluence_extender.kubectl.submit:create",
        _usage(
            "create",
            "Choose a backend for each object that asks for one, then create everything with kubectl.",
            _SELECTION + _SUBMISSION,
            _FORWARDED,
        ),
    ),
    Command(
        "select",
        "Choose, and print the manifest instead of applying it",
        "fluence_extender.kubectl.submit:select",
        _usage(
            "select",
            "Choose a backend for each object that asks for one, and print the manifest; nothing is applied.",
            _SELECTION,
            "Flags that say which cluster, such as --context, are kubectl's.\n",
        ),
    ),
    Command(
        "version",
        "Print the version",
        "fluence_extender.kubectl.main:version",
        "Print the version.\n\nUsage:\n  kubectl fluence version\n",
    ),
    Command(
        "help",
        "Explain a command",
        "fluence_extender.kubectl.main:show_help",
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
            "Choose a backend for your jobs before they are submitted.",
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
