"""resources.yaml that is edited while a service runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from fluence_extender.cluster.live_resources import LiveResources
from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.graph.virtual import VirtualResources

GOOD = "resources: [{type: qpu, name: first}]"
BETTER = "resources: [{type: qpu, name: second}]"
BAD = "resources: [{name: nameless}]"


@dataclass
class Followed:
    """A service that follows the file, with what it has adopted and rejected."""

    adopted: list[VirtualResources] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    keep_if_gone: bool = False

    def __post_init__(self) -> None:
        self.live = LiveResources(lambda _, why: self.rejected.append(why), self.keep_if_gone)

    def see(self, *texts: str | None) -> None:
        for text in texts:
            resources = self.live.read(ResourcesFile("file", text))
            if resources is not None:
                self.adopted.append(resources)

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


def test_a_file_that_is_gone_is_rejected_once_if_its_resources_are_to_stay() -> None:
    followed = Followed(keep_if_gone=True)
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
