"""Entity tags (RFC 9110, 8.8.3 and 13.1.2): who has the newest answer already gets none.

A tag is made of a revision that grows with each change, not of the answer, so that it costs nothing. It is strong:
equal tags of one process mean equal bytes. A process never takes the tag of another for one of its own.
"""

from __future__ import annotations

import re
import secrets

_TAG = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")')


class Tags:
    """The tags of one process."""

    def __init__(self) -> None:
        self._process = secrets.token_hex(6)

    def tag(self, revision: str, leading: bool) -> str:
        """The tag of an answer made at ``revision``."""
        return f'"{self._process}.{revision}.{"leading" if leading else "standby"}"'


def matches(asked: str, tag: str) -> bool:
    """Whether an ``If-None-Match`` names the tag."""
    return asked.strip() == "*" or tag in _TAG.findall(asked)
