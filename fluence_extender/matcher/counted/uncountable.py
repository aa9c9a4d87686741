"""What arithmetic over counts can't answer, and a walk over single vertices can."""

from __future__ import annotations

from errno import EINVAL

from fluence_extender.matcher.errors import MatcherError


class Uncountable(MatcherError):
    """The document or the request is for the walker; nothing has changed."""

    errno = EINVAL
