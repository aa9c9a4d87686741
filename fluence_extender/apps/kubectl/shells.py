"""``kubectl fluence completion``: scripts that make a shell complete ``kubectl-fluence`` called by its own name.

As ``kubectl fluence`` it is completed by kubectl's own completion, which asks the program `completion` for candidates;
these scripts ask the same program.
"""

from __future__ import annotations

from collections.abc import Sequence

from fluence_extender.apps.kubectl.errors import UsageError
from fluence_extender.apps.kubectl.question import read_question

_BASH = """\
# kubectl fluence is completed by kubectl's own completion: source <(kubectl completion bash)
# This completes kubectl-fluence as well: source <(kubectl fluence completion bash)
_kubectl_fluence() {
    local line directive current="${COMP_WORDS[COMP_CWORD]}"
    local -a lines
    mapfile -t lines < <(kubectl_complete-fluence "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    directive="${lines[-1]:-:0}"
    COMPREPLY=()
    for line in "${lines[@]:0:${#lines[@]}-1}"; do
        COMPREPLY+=("${line%%$'\\t'*}")
    done
    if [[ "$directive" == ":0" && ${#COMPREPLY[@]} -eq 0 ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
}
complete -F _kubectl_fluence kubectl-fluence
"""
_ZSH = """\
#compdef kubectl-fluence
# kubectl fluence is completed by kubectl's own completion: source <(kubectl completion zsh)
# This completes kubectl-fluence as well: source <(kubectl fluence completion zsh)
_kubectl_fluence() {
    local -a lines candidates
    local line directive
    lines=("${(@f)$(kubectl_complete-fluence "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    directive="${lines[-1]}"
    for line in "${(@)lines[1,-2]}"; do
        candidates+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
    done
    if (( ${#candidates} )); then
        _describe kubectl-fluence candidates
    elif [[ "$directive" == ":0" ]]; then
        _files
    fi
}
compdef _kubectl_fluence kubectl-fluence
"""
_FISH = """\
# kubectl fluence is completed by kubectl's own completion: kubectl completion fish | source
# This completes kubectl-fluence as well: kubectl fluence completion fish | source
function __kubectl_fluence
    set -l words (commandline -opc) (commandline -ct)
    set -l lines (kubectl_complete-fluence $words[2..-1] 2>/dev/null)
    test (count $lines) -gt 1; and printf '%s\\n' $lines[1..-2]
    test "$lines[-1]" = ":0"; and test (count $lines) -eq 1; and __fish_complete_path (commandline -ct)
end
complete -c kubectl-fluence -f -a '(__kubectl_fluence)'
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def completion(words: Sequence[str]) -> int:
    """``kubectl fluence completion SHELL``."""
    question = read_question("completion", words, most=1)
    if question is None:
        return 0
    shell = question.words[0] if question.words else ""
    if shell not in SCRIPTS:
        raise UsageError(f"completion for which shell? One of {', '.join(SCRIPTS)}")
    print(SCRIPTS[shell], end="")
    return 0
