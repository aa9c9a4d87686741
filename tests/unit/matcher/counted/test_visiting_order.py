"""Siblings are visited by weight, then by uniq_id."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.matcher.counted.siblings import Siblings

NEW = 2**64 - 1


def visited(siblings: Siblings) -> list[int]:
    return [reference for batch in siblings.batches() for reference in batch.tolist()]


@given(st.randoms(use_true_random=False))
def test_children_are_visited_by_weight_then_by_uniq_id(random: Random) -> None:
    model = {
        reference: (NEW, uniq)
        for reference, uniq in enumerate(random.sample(range(500), random.randint(0, 90)))
    }
    siblings = Siblings([(reference, uniq) for reference, (_, uniq) in model.items()])
    for step in range(12):
        change = random.choice(["add", "remove", "few", "many"])
        if change == "add":
            reference, uniq = 1000 + step, random.choice([1000 + step, -1 - step])
            siblings.add(reference, uniq)
            model[reference] = (NEW, uniq)
        elif change == "remove" and model:
            reference = random.choice(sorted(model))
            siblings.remove(reference)
            del model[reference]
        elif model:
            chosen = random.sample(sorted(model), min(len(model), 1 if change == "few" else 40))
            weights = [random.randrange(4) for _ in chosen]
            siblings.reweigh(chosen, weights)
            for reference, weight in zip(chosen, weights, strict=True):
                model[reference] = (weight, model[reference][1])
        expected = sorted(model, key=lambda reference: model[reference], reverse=True)
        assert visited(siblings) == expected
