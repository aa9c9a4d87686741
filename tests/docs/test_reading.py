"""The reader finds what texts show, and takes lines of shell apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import reading
from tests.docs.reading import Shown, commands, fences, of_comments, typed
from tests.docs.shell import started

PAGE = """\
# Page

Run `make test
ARGS=x`, or `this`.

```console
$ kubectl get pods \\
    -A
NAME
$ cat > x <<'END'
kubectl: no command
END
```

    fluence-extender graph   # a remark

1. a list
   ```yaml
   a: 1
   ```
"""


def test_page_shows_its_blocks_and_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    monkeypatch.setattr(reading, "ROOT", tmp_path)
    monkeypatch.setattr(reading, "PAGES", (page,))
    monkeypatch.setattr(reading, "COMMENTED", ())
    for cached in (reading.spans, reading.commands):
        cached.cache_clear()
    try:
        assert [(one.where, one.language, one.text) for one in fences(page)][1] == (
            "page.md:18",
            "yaml",
            "a: 1\n",
        )
        assert commands() == (
            Shown("page.md:6", "kubectl get pods      -A", True),
            Shown("page.md:6", "cat > x <<'END'", True),
            Shown("page.md:15", "fluence-extender graph   # a remark", True),
            Shown("page.md:3", "make test ARGS=x", False),
        )
    finally:
        for cached in (reading.spans, reading.commands):
            cached.cache_clear()


def test_lines_without_prompts_are_all_commands() -> None:
    assert typed("a b\n\nc\n", prompted=False) == ["a b", "c"]


def test_command_that_is_shown_to_fail_is_left_out() -> None:
    assert typed("$ a\nerror: no a\n$ b\n", prompted=True) == ["b"]


def test_comments_show_commands_on_lines_of_their_own() -> None:
    text = (
        "# kubectl scale changes nothing here.\n"
        "#   kubectl create secret generic a --from-literal B=c \\\n"
        "#     --from-literal D=e\n"
        "#   kubectl get pod a       (or another)\n"
        "# kubectl apply -k deploy/\n"
    )
    assert [one.text for one in of_comments(text, "x.yaml")] == [
        "kubectl create secret generic a --from-literal B=c  --from-literal D=e",
        "kubectl get pod a",
        "kubectl apply -k deploy/",
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("kubectl get pods -A  # all", [["kubectl", "get", "pods", "-A"]]),
        ("mkdir ../a && cat > ../a/b <<'END'", [["mkdir", "../a"], ["cat"]]),
        ("kubectl fluence aply 2>&1 | head -1", [["kubectl", "fluence", "aply"], ["head", "-1"]]),
        ("source <(kubectl completion bash)", [["source"], ["kubectl", "completion", "bash"]]),
        ("A=b make x ARGS='-k y'", [["make", "x", "ARGS=-k y"]]),
    ],
)
def test_line_of_shell_is_taken_apart(line: str, words: list[list[str]]) -> None:
    assert started(line) == words
