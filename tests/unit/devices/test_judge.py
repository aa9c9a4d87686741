"""How much is evaluated for whom: turns by namespace, budgets in steps and characters, and what waits meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from fluence_extender.devices import judge as module
from fluence_extender.devices.evaluation import Evaluations, Findings
from fluence_extender.devices.judge import (
    ADMINISTRATORS,
    MOST_CHARACTERS,
    MOST_COSTLY,
    MOST_OF_A_NAMESPACE,
    PUT_OFF,
    STEPS_A_SECOND,
    STEPS_AT_ONCE,
    TOO_COSTLY,
    TOO_LONG,
    UNDER_WAY,
    Judge,
    Piece,
)
from fluence_extender.devices.selectors import numbered, verdict
from fluence_extender.model.devices import NodeDevice
from fluence_extender.objects.devices import ResourceSlice

DRIVER = "gpu.example.com"


def devices(*names: str) -> ResourceSlice:
    """Return a slice of devices that all differ. It has to be kept while its devices are to be judged."""
    some = (NodeDevice(DRIVER, "pool", name, {f"{DRIVER}/uuid": name}) for name in names)
    return numbered(ResourceSlice("s", DRIVER, "pool", devices=tuple(some)))


def is_named(name: str) -> str:
    return f'device.attributes["{DRIVER}"].uuid == "{name}"'


def answered(judge: Judge, piece: Piece, now: float, steps: int, costly: int) -> None:
    """Findings that the expression selects every device."""
    judge.take(piece, Findings([True] * len(piece.values), "", steps, costly), now)


def turns(judge: Judge, count: int, now: float = 0.0, steps: int = 0, costly: int = 0) -> list[str]:
    """Return for which namespaces the next pieces are, and answer them."""
    found = []
    for _ in range(count):
        piece = judge.next(now)
        if piece is None:
            break
        found.append(piece.namespace)
        answered(judge, piece, now, steps, costly)
    return found


def test_verdicts_are_unknown_until_the_answer_is_there_and_the_asker_is_told() -> None:
    kept, judge = devices("a", "b"), Judge()
    assert judge.want("pod", "ns", (is_named("a"),)) == ("", UNDER_WAY)
    assert [verdict(is_named("a"), one) for one in kept.devices] == [None, None]
    piece = judge.next(0.0)
    assert piece is not None
    found = Evaluations().judge(piece.table.expression, [one.device for one in piece.values])
    judge.take(piece, found, 0.0)
    assert judge.next(0.0) is None
    assert judge.settled == ["pod"]
    assert judge.want("pod", "ns", (is_named("a"),)) == ("", "")
    assert [verdict(is_named("a"), one) for one in kept.devices] == [True, False]


def test_pods_with_the_same_selectors_are_judged_once() -> None:
    kept, judge = devices("a"), Judge()
    for number in range(100):
        judge.want(f"pod-{number}", "ns", ("true", is_named("a")))
    assert turns(judge, 10) == ["ns"] * 2
    assert len(judge.settled) == 100
    assert kept


def test_namespaces_take_turns_however_much_one_of_them_asks() -> None:
    kept, judge = devices("a"), Judge()
    for number in range(50):
        judge.want(f"h{number}", "hostile", (f"{number} >= 0", f"{number} >= 1"))
    judge.want("p", "physics", ("true",))
    judge.want("c", "chemistry", ("true",))
    judge.want("class", ADMINISTRATORS, ("false",))
    assert turns(judge, 4) == ["", "hostile", "physics", "hostile"]
    assert "p" in judge.settled
    assert kept


def test_light_ask_isnt_kept_waiting_by_heavy_ones_of_its_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEVICES_AT_ONCE", 1)
    kept, judge = devices("a", "b", "c"), Judge()
    judge.want("heavy", "ns", tuple(f"{number} >= 0" for number in range(30)))
    judge.want("light", "ns", ("true",))
    turns(judge, 6)
    assert judge.settled == ["light"]
    assert kept


def test_claim_that_takes_too_many_steps_is_given_up_and_says_so() -> None:
    kept, judge = devices(*map(str, range(32))), Judge()
    wanted = tuple(f"{number} >= 0" for number in range(100))
    judge.want("pod", "ns", wanted)
    taken = len(turns(judge, 1_000, costly=MOST_COSTLY // 10, steps=1))
    assert taken == 11
    assert judge.settled == ["pod"]
    assert judge.want("pod", "ns", wanted) == (TOO_COSTLY, "")
    assert judge.idle
    assert kept


def test_selectors_of_too_many_characters_are_not_even_compiled() -> None:
    kept, judge = devices("a"), Judge()
    long = f'"{"x" * MOST_CHARACTERS}" == ""'
    assert judge.want("pod", "ns", (long,)) == (TOO_LONG, "")
    assert judge.next(0.0) is None
    assert kept


def test_namespace_that_has_used_its_steps_waits_and_others_dont() -> None:
    kept, judge = devices("a"), Judge()
    judge.want("h", "hostile", ("1 == 1", "2 == 2", "3 == 3"))
    assert turns(judge, 1, steps=STEPS_AT_ONCE + 10 * STEPS_A_SECOND) == ["hostile"]
    assert judge.next(0.0) is None
    judge.want("p", "physics", ("true",))
    assert turns(judge, 10) == ["physics"]
    assert judge.next(9.0) is None
    assert turns(judge, 1, now=11.0) == ["hostile"]
    assert kept


def test_deleting_what_asked_gives_no_steps_back() -> None:
    kept, judge = devices("a"), Judge()
    judge.want("h", "hostile", ("1 == 1",))
    turns(judge, 1, steps=2 * STEPS_AT_ONCE)
    judge.drop("h")
    judge.next(1.0)
    judge.want("h2", "hostile", ("2 == 2",))
    assert judge.next(1.0) is None
    assert kept


def test_namespace_keeps_so_many_characters_and_what_is_beyond_waits_until_others_are_gone() -> None:
    kept, judge = devices("a"), Judge()
    size = MOST_CHARACTERS - 10
    texts = [f'"{letter * (size - 8)}" == ""' for letter in "abcdefghijkl"]
    found = [judge.want(text, "ns", (text,))[1] for text in texts]
    fitting = MOST_OF_A_NAMESPACE // size
    assert found == [UNDER_WAY] * fitting + [PUT_OFF] * (len(texts) - fitting)
    assert judge.want("other", "physics", ("true",)) == ("", UNDER_WAY)
    for text in texts[: len(texts) - fitting]:
        judge.drop(text)
    turns(judge, 100)
    assert set(judge.settled) == {*texts[len(texts) - fitting :], "other"}
    assert kept


def test_device_with_new_values_is_judged_too_and_nobody_is_told_unless_somebody_looked() -> None:
    first, judge = devices("a"), Judge()
    judge.want("pod", "ns", (is_named("new"),))
    turns(judge, 10)
    assert judge.settled == ["pod"]
    second = devices("new")
    judge.look_again()
    assert turns(judge, 10) == ["ns"]
    assert not judge.has_news
    third = devices("newer")
    judge.look_again()
    assert verdict(is_named("new"), third.devices[0]) is None
    turns(judge, 10)
    assert [judge.wanted_before, judge.wanted_before] == [True, False]
    assert first, second


def test_verdict_of_values_that_are_gone_isnt_taken_for_that_of_others() -> None:
    kept, judge = devices("a"), Judge()
    judge.want("pod", "ns", (is_named("a"),))
    turns(judge, 10)
    assert verdict(is_named("a"), kept.devices[0]) is True
    del kept
    other = devices("z")
    assert verdict(is_named("a"), other.devices[0]) is None


def test_expression_that_ends_its_process_selects_nothing_and_costs_its_namespace_much() -> None:
    kept, judge = devices("a"), Judge()
    judge.want("pod", "ns", ("true", "1 == 1"))
    piece = judge.next(0.0)
    assert piece is not None
    judge.lose(piece, "takes more than 1 s", 0.0)
    assert verdict("true", kept.devices[0]) == "the selector true takes more than 1 s"
    assert judge.next(10.0) is None
    assert judge.next(60.0) is not None


@pytest.mark.parametrize("devices_at_once", [1, 7])
def test_without_a_loop_everything_is_known_at_once(
    devices_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DEVICES_AT_ONCE", devices_at_once)
    calls: list[int] = []

    def counted(evaluate: Callable[[str, Sequence[NodeDevice]], Findings]) -> module.Evaluate:
        def run(expression: str, some: Sequence[NodeDevice]) -> Findings:
            calls.append(len(some))
            return evaluate(expression, some)

        return run

    kept, judge = devices("a", "b", "c"), Judge(counted(Evaluations().judge))
    assert judge.want("pod", "ns", (is_named("c"),)) == ("", "")
    assert [verdict(is_named("c"), one) for one in kept.devices] == [False, False, True]
    assert sum(calls) == 3
