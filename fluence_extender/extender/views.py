"""The shapes of the state API, as its OpenAPI document shows them.

They describe what `port`'s views look like as JSON; the answers themselves are encoded straight from those views, so
that a large cluster's state doesn't pass through validation. Invariant: every answer is valid under its model.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from fluence_extender.model.gang import GangState


class _View(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Member(_View):
    """One pod of a gang."""

    pod: Annotated[str, Field(description="The pod's name.", examples=["vqe-0"])]
    uid: Annotated[
        str, Field(description="The pod's uid.", examples=["6e1b2a34-5c1d-4a53-9f0e-2f0f3c9f7a10"])
    ]
    node: Annotated[str, Field(description="Its node, planned or bound; empty while none.", examples=["n7"])]
    backend: Annotated[
        str, Field(description="Its backend, planned or bound; empty while none.", examples=["ibm-a"])
    ]


class Gang(_View):
    """Pods that are placed together or not at all."""

    namespace: Annotated[str, Field(description="The gang's namespace.", examples=["default"])]
    name: Annotated[str, Field(description="The group's name, or that of a pod alone.", examples=["vqe"])]
    state: Annotated[
        GangState,
        Field(
            description="waiting: without a place; planned: has one; committed: members are being bound; "
            "bound: every member has its node; finished: no member is left.",
            examples=["waiting"],
        ),
    ]
    reason: Annotated[
        str,
        Field(
            description="Why it is in this state; empty when there is nothing to explain.",
            examples=["waiting for members (3 of 8 exist)"],
        ),
    ]
    size: Annotated[int, Field(description="How many members make it whole.", examples=[8])]
    members: Annotated[list[Member], Field(description="The members that exist.")]


class Allocation(_View):
    """What one pod holds."""

    namespace: Annotated[str, Field(description="The pod's namespace.", examples=["default"])]
    pod: Annotated[str, Field(description="The pod's name.", examples=["vqe-0"])]
    uid: Annotated[
        str, Field(description="The pod's uid.", examples=["6e1b2a34-5c1d-4a53-9f0e-2f0f3c9f7a10"])
    ]
    node: Annotated[str, Field(description="The node it is held on.", examples=["n7"])]
    core: Annotated[float, Field(description="Cores; a part of one may be held.", examples=[1.5])]
    memory: Annotated[int, Field(description="Memory in bytes.", examples=[2147483648])]
    gpu: Annotated[int, Field(description="Whole gpus.", examples=[0])]
    backend: Annotated[str, Field(description="The backend held; empty when none is.", examples=["ibm-a"])]
    devices: Annotated[
        dict[str, int], Field(description="Virtual resources held, by type.", examples=[{"qpu": 1}])
    ]


class Problem(_View):
    """Why there is no answer."""

    detail: Annotated[str, Field(description="The reason, for people.", examples=["not ready: listing pods"])]
