"""Which victims are chosen."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.gangs.preemption.search import Fits, Victim, choose, cost
from fluence_extender.model.gang import Convention, GangKey

PLENTY = 10_000


def victim(
    name: str, pods: int = 1, priority: int = 0, created: float = 0.0, surplus: bool = False
) -> Victim:
    uids = frozenset(f"{name}-{number}" for number in range(pods))
    return Victim(GangKey("default", name, Convention.LABEL), priority, created, uids, surplus)


def needs(*sets: set[str]) -> Fits:
    """Return a question: the preemptor fits once all pods of one of the sets are gone."""
    return lambda gone: any(one <= gone for one in sets)


def names(found: tuple[Victim, ...] | None) -> list[str]:
    assert found is not None
    return sorted(one.gang.name for one in found)


def test_the_fewest_gangs_are_chosen() -> None:
    small, other, large = victim("a"), victim("b"), victim("c", pods=9, priority=5)
    fits = needs({"a-0", "b-0"}, {f"c-{number}" for number in range(9)})
    assert names(choose([small, other, large], fits, PLENTY)) == ["c"]


def test_of_equally_many_gangs_the_lowest_are_chosen_however_large() -> None:
    low, high = victim("low", pods=9, priority=1), victim("high", priority=2)
    fits = needs({"low-0"}, {"high-0"})
    assert names(choose([high, low], fits, PLENTY)) == ["low"]


def test_of_equal_priorities_the_fewest_pods_are_chosen() -> None:
    assert names(choose([victim("a", 2), victim("b", 1)], needs({"a-0"}, {"b-0"}), PLENTY)) == ["b"]


def test_of_equally_large_gangs_the_youngest_is_chosen() -> None:
    old, young = victim("a", created=1.0), victim("b", created=2.0)
    assert names(choose([old, young], needs({"a-0"}, {"b-0"}), PLENTY)) == ["b"]


def test_no_victim_is_chosen_in_vain() -> None:
    assert choose([victim("a"), victim("b")], needs({"c-0"}), PLENTY) is None
    assert choose([], needs(set()), PLENTY) is None


def test_surplus_members_are_chosen_before_any_gang() -> None:
    whole = victim("a", pods=3)
    spare = [Victim(whole.gang, 0, 0.0, frozenset({f"a-{number}"}), surplus=True) for number in (1, 2)]
    found = choose([whole, *spare, victim("b")], needs({"a-1"}, {"b-0"}), PLENTY)
    assert found == (spare[0],)


def test_surplus_is_taken_with_a_gang_only_where_needed() -> None:
    spare = victim("s", surplus=True), victim("t", surplus=True)
    found = choose([*spare, victim("b"), victim("c", priority=9)], needs({"b-0", "t-0"}), PLENTY)
    assert names(found) == ["b", "t"]


candidates = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=7
).map(lambda rows: [victim(f"g{place}", *row) for place, row in enumerate(rows)])


@given(candidates, st.data())
def test_the_choice_is_the_cheapest_set_that_is_enough(some: list[Victim], data: st.DataObject) -> None:
    pods = sorted(uid for one in some for uid in one.uids)
    fits = needs(*data.draw(st.lists(st.sets(st.sampled_from(pods), min_size=1), max_size=3)))
    enough = [
        taken
        for size in range(1, len(some) + 1)
        for taken in combinations(some, size)
        if fits(frozenset().union(*(one.uids for one in taken)))
    ]
    found = choose(some, fits, PLENTY)
    assert (found is None) == (not enough)
    if found is not None:
        assert cost(found) == min(cost(taken) for taken in enough)


@given(st.integers(2, 60), st.integers(1, 200), st.data())
def test_with_few_trials_the_choice_is_enough_and_as_small_as_they_allow(
    count: int, trials: int, data: st.DataObject
) -> None:
    some = [victim(f"g{number}", priority=number % 5) for number in range(count)]
    pods = [uid for one in some for uid in one.uids]
    needed = data.draw(st.sets(st.sampled_from(pods), min_size=1, max_size=4))
    asked = 0

    def fits(gone: frozenset[str]) -> bool:
        nonlocal asked
        asked += 1
        return needed <= gone

    found = choose(some, fits, trials)
    assert found is not None
    assert needed <= frozenset().union(*(one.uids for one in found))
    assert asked <= trials + 1
    if trials >= 100:
        assert len(found) == len(needed)
