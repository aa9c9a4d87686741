"""A line of shell as the programs that it starts, each with its words; pipes, redirections and remarks are left out."""

from __future__ import annotations

import re
import shlex

_ASSIGNMENT = re.compile(r"[A-Z_]+=")


def started(line: str) -> list[list[str]]:
    """Return the words of each program that ``line`` starts."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    words = iter(lexer)
    for word in words:
        if set(word) <= set("<>&|;()") and ("<" in word or ">" in word) and "(" not in word:
            if found[-1] and found[-1][-1].isdigit():
                found[-1].pop()
            next(words, None)
        elif set(word) <= set("<>&|;()"):
            found.append([])
        else:
            found[-1].append(word)
    return [rest for one in found if (rest := _without_assignments(one))]


def _without_assignments(words: list[str]) -> list[str]:
    while words and _ASSIGNMENT.match(words[0]):
        words = words[1:]
    return words
