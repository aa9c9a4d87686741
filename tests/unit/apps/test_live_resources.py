"""resources.yaml as it changes under a running service."""

from __future__ import annotations

from dataclasses import dataclass, field

from fluence_extender.apps.extender.live_resources import LiveResources
from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.graph.virtual import VirtualResources

GOOD = "resources: [{type: qpu, name: first}]"
BETTER = "resources: [{type: qpu, name: second}]"
BAD = "resources: [{name: nameless}]"


@dataclass
class Followed:
    """A service that follows the file, and what it was told."""

    adopted: list[VirtualResources] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    keeps: bool = False

    def __post_init__(self) -> None:
        self.live = LiveResources(self.adopted.append, lambda _, why: self.rejected.append(why), self.keeps)

    def see(self, *texts: str | None) -> None:
        for text in texts:
            self.live.take(ResourcesFile("file", text))

    def at_fault(self) -> bool:
        return self.live.fault is not None

    def names(self) -> list[list[str]]:
        return [[one.name for one in resources.resources] for resources in self.adopted]


def test_each_good_edit_is_adopted_once() -> None:
    followed = Followed()
    followed.see(GOOD, GOOD, BETTER)
    assert followed.names() == [["first"], ["second"]]
    assert followed.rejected == []


def test_a_missing_file_and_an_empty_one_are_a_classical_cluster() -> None:
    followed = Followed()
    followed.see(None, "", GOOD, None)
    assert followed.names() == [[], [], ["first"], []]


def test_who_keeps_what_a_file_said_that_is_gone_is_told_once() -> None:
    followed = Followed(keeps=True)
    followed.see(None, GOOD, None, None)
    assert followed.names() == [[], ["first"]]
    assert followed.rejected == ["file is gone"]
    followed.see(GOOD, None, BETTER)
    assert followed.names() == [[], ["first"], ["first"], ["second"]]
    assert followed.rejected == ["file is gone"] * 2


def test_a_bad_edit_is_rejected_with_its_faults_and_adopts_nothing() -> None:
    followed = Followed()
    followed.see(GOOD, BAD, BAD)
    assert followed.names() == [["first"]]
    assert len(followed.rejected) == 1
    assert "missing required field 'type'" in followed.rejected[0]
    assert followed.live.fault is None


def test_going_back_to_the_text_before_a_bad_edit_is_adopted_again() -> None:
    followed = Followed()
    followed.see(GOOD, BAD, GOOD)
    assert followed.names() == [["first"], ["first"]]


def test_a_fault_at_the_start_is_kept_until_a_good_edit() -> None:
    followed = Followed()
    followed.see(BAD)
    assert followed.at_fault()
    assert followed.rejected == []
    followed.see(GOOD)
    assert not followed.at_fault()
    assert followed.names() == [["first"]]


def test_edit_of_which_no_graph_can_be_built_is_rejected_when_that_shows() -> None:
    followed = Followed()
    followed.see(GOOD, BETTER)
    followed.live.taken_back(followed.adopted[-1], "too large")
    assert followed.rejected == ["too large"]
    followed.see(GOOD)
    assert len(followed.adopted) == 3
