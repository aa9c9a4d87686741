"""CEL selectors: what they select, what can't be said, and what is remembered."""

from __future__ import annotations

import pytest

from fluence_extender.devices import cel, evaluation
from fluence_extender.devices.evaluation import Evaluations
from fluence_extender.devices.selectors import selects, table, values_of
from fluence_extender.model.devices import Capacity, NodeDevice, Version

DRIVER = "gpu.example.com"
ATTRIBUTES = f'device.attributes["{DRIVER}"]'
MEMORY = f'device.capacity["{DRIVER}"].memory'


def device(**attributes: object) -> NodeDevice:
    values = {"model": "a100", "ok": True, "index": 3, "version": Version("1.2.3"), **attributes}
    known = {f"{DRIVER}/{name}": value for name, value in values.items()}
    return NodeDevice(DRIVER, "pool", "gpu", known, {"memory": Capacity(40 * 2**30 * 10**9)})  # type: ignore[arg-type]


def verdict(expression: str, *devices: NodeDevice) -> bool | str:
    """Return the verdict on the last of the devices."""
    answer = Evaluations().judge(expression, devices)
    return answer.fault or answer.verdicts[-1]


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        (f'device.driver == "{DRIVER}"', True),
        (f'{ATTRIBUTES}.model == "a100" && {MEMORY}.compareTo(quantity("10Gi")) >= 0', True),
        (f'{MEMORY}.isGreaterThan(quantity("50Gi"))', False),
        (f'{MEMORY} == quantity("40960Mi")', True),
        (f'{ATTRIBUTES}.version.isGreaterThan(semver("1.2.3-rc.1"))', True),
        (f'{ATTRIBUTES}.version.isLessThan(semver("1.2.3"))', False),
        (f"{ATTRIBUTES}.ok", True),
        (f"has({ATTRIBUTES}.other)", False),
        ("device.allowMultipleAllocations", False),
        ('has(device.attributes["other.example.com"].model)', False),
        (f'"model" in {ATTRIBUTES}', True),
        ('"other.example.com" in device.attributes', False),
        (f'cel.bind(a, {ATTRIBUTES}, a.index == 3 && a.model.startsWith("a"))', True),
        (f'{ATTRIBUTES}.model in ["h100", "b200"]', False),
        (f'{ATTRIBUTES}.model.matches("^a[0-9]+$")', True),
        (f'{ATTRIBUTES}.index == "3"', False),
        (f'{ATTRIBUTES}.index != "3"', True),
        (f'{ATTRIBUTES}.other == "x" || true', True),
    ],
)
def test_expression_selects_as_kubernetes_evaluates_it(expression: str, selected: bool) -> None:
    assert verdict(expression, device()) is selected


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        (f'{ATTRIBUTES}.other == "x"', "no such member"),
        ("1 +", "can't be read"),
        (f"{ATTRIBUTES}.?model.hasValue()", "can't be read"),
        ("", "can't be read"),
        (f"{ATTRIBUTES}.model", "isn't true or false"),
        ("device.attributes[3]", "isn't true or false"),
        (f'{ATTRIBUTES}.model.compareTo(quantity("1")) > 0', "fails"),
        ("(" * 400 + "true" + ")" * 400, ""),
        ("[1].exists(1, true)", "fails"),
        ("int(1.0 / 0.0) > 0", "fails"),
    ],
)
def test_expression_that_fails_selects_nothing_and_says_why(expression: str, why: str) -> None:
    found = verdict(expression, device())
    assert isinstance(found, str)
    assert why in found


def test_costly_expression_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cel, "MOST_STEPS", 200)
    ten = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
    found = verdict(f"{ten}.all(x, {ten}.all(y, {ten}.all(z, x + y + z >= 0)))", device())
    assert isinstance(found, str)
    assert "takes more than 200 steps" in found


def nested(levels: int, first: str, each: str) -> str:
    """Return an expression in which each of the names a0, a1, ... stands for what ``each`` makes of the one before."""
    expression = f"size(a{levels - 1}) > 0 && a{levels - 1} == a{levels - 1}"
    for level in reversed(range(1, levels)):
        expression = f"cel.bind(a{level}, {each.replace('A', f'a{level - 1}')}, {expression})"
    return f"cel.bind(a0, {first}, {expression})"


@pytest.mark.parametrize(
    ("first", "each"),
    [
        ('"x"', "A + A"),
        ("[1]", "A + A"),
        ("[1]", "[A, A]"),
        ("[1]", "[1, 2].map(x, A)"),
        ("{1: 1}", "{1: A, 2: A}"),
        ('"xxxxxxxxxx"', 'A.replace("x", A)'),
        ('"xxxxxxxxxx"', 'A.replace("", A)'),
    ],
)
def test_short_expression_that_makes_a_huge_value_is_given_up(first: str, each: str) -> None:
    found = verdict(nested(24, first, each), device())
    assert isinstance(found, str)
    assert "takes more than 10000 steps" in found


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "SECONDS", float("inf"))


def test_costly_steps_are_those_beyond_a_few_of_each_evaluation() -> None:
    cheap = f'device.driver == "{DRIVER}" && {ATTRIBUTES}.index == 7'
    costly = (
        f"{ATTRIBUTES}.index >= 0 && [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all(x, [0, 1, 2, 3].all(y, x + y >= 0))"
    )
    devices = [device(index=index) for index in range(10)]
    evaluations = Evaluations()
    assert evaluations.judge(cheap, devices).costly == 0
    first = evaluations.judge(costly, devices[:1]).costly
    assert first > 0
    assert evaluations.judge(costly, devices).costly == 9 * first


def test_list_of_many_texts_is_within_the_limit() -> None:
    texts = ", ".join(f'"GPU-{number:036}"' for number in range(200))
    assert verdict(f"{ATTRIBUTES}.model in [{texts}]", device()) is False


def test_device_with_the_same_values_is_not_evaluated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    expression = f'{ATTRIBUTES}.model == "a100" && {ATTRIBUTES}.ok && size({ATTRIBUTES}.model) == 4'
    devices = [device(uuid=str(number), model=model) for number in range(20) for model in ("a100", "h100")]
    evaluated: list[str] = []
    evaluate = cel.Program.selects

    def counted(self: cel.Program, one: NodeDevice, read: cel.Read) -> bool:
        evaluated.append(one.name)
        return evaluate(self, one, read)

    monkeypatch.setattr(cel.Program, "selects", counted)
    assert Evaluations().judge(expression, devices).verdicts == [True, False] * 20
    assert len(evaluated) == 2


def test_devices_that_differ_in_what_a_loop_reads_are_evaluated_each() -> None:
    expression = f'{ATTRIBUTES}.exists(name, name == "fast")'
    assert [verdict(expression, one) for one in (device(), device(fast=True), device(slow=True))] == [
        False,
        True,
        False,
    ]


def test_all_expressions_have_to_hold() -> None:
    first, second = table(f'{ATTRIBUTES}.model == "a100"'), table(f"{ATTRIBUTES}.index == 4")
    some = [device(), device(index=4)]
    values = [values_of(one) for one in some]
    for kept in (first, second):
        for one, found in zip(values, Evaluations().judge(kept.expression, some).verdicts, strict=True):
            kept.learn(one, found)
    both = first.expression, second.expression
    assert selects(both[:1], some[0]) is True
    assert selects(both, some[0]) is False
    assert selects(both, some[1]) is True
    assert selects((), some[0]) is True
    assert selects((*both, "true"), some[1]) is None
