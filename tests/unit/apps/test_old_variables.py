"""The variable by which fluence set the match policy is read."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from fluence_extender.apps.cli import serve


def policy_of(**environ: str) -> str:
    option = next(one for one in serve.params if one.name == "policy")
    with CliRunner(env=environ).isolation(), click.Context(serve) as context:
        return str(option.consume_value(context, {})[0])


@pytest.mark.parametrize(
    ("environ", "policy"),
    [
        ({"FLUENCE_MATCH_POLICY": "first"}, "first"),
        ({"FLUENCE_POLICY": "hinode", "FLUENCE_MATCH_POLICY": "first"}, "hinode"),
        ({"FLUENCE_POLICY": "hinode"}, "hinode"),
    ],
)
def test_match_policy_is_read_under_its_old_name_too(environ: dict[str, str], policy: str) -> None:
    assert policy_of(**{"FLUENCE_POLICY": "", **environ}) == policy
