"""Problems as they are answered: a text in ``detail``, and the same as a Status of Kubernetes.

Of an answer that comes through the API server's proxy kubectl shows the message of a Status and nothing else.
"""

from __future__ import annotations

from fastapi.responses import JSONResponse


class BadQuestion(Exception):
    """What is asked has no answer; the text says what to ask instead."""


def refusal(status: int, told: str) -> JSONResponse:
    """The answer to a request that is refused with ``status``, because of what is ``told``."""
    shown = {"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": status, "message": told}
    return JSONResponse({"detail": told, **shown}, status)
