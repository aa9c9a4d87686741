"""Environment variables of fluence are read where they still make sense, and reported where they don't."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from fluence_extender.apps.cli import main, serve, warnings_of_old_variables


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


def test_variable_without_effect_is_reported_with_its_successor() -> None:
    assert warnings_of_old_variables(
        {"WEBHOOK_SERVICE": "x", "FLUENCE_RESOURCE_CAPACITY": "9", "PATH": "y"}
    ) == [
        "warning: FLUENCE_RESOURCE_CAPACITY has no effect: it isn't needed any more",
        "warning: WEBHOOK_SERVICE has no effect: set FLUENCE_WEBHOOK_SERVICE instead",
    ]


def test_command_reports_it_on_stderr_and_goes_on() -> None:
    shown = CliRunner(env={"WEBHOOK_ADDR": ":8443"}).invoke(main, ["version"])
    assert shown.exit_code == 0
    assert "set FLUENCE_LISTEN_HOST and FLUENCE_LISTEN_PORT instead" in shown.stderr
    assert shown.stdout.startswith("fluence-extender ")
