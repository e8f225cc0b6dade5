"""`sessionctl completion`: scripts, and what they complete."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.cli.conftest import Runner, assert_fits_schema

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.mark.parametrize("shell", ["fish", "zsh"])
def test_a_script_names_the_program_and_its_variable(run: Runner, shell: str) -> None:
    done = run("completion", shell)
    assert done.code == 0
    assert "_SESSIONCTL_COMPLETE" in done.out
    assert_fits_schema(run, "completion", run("completion", shell, "--json").objects)


def test_an_unknown_shell_is_wrong_usage(run: Runner) -> None:
    assert run("completion", "dos").code == 2


@pytest.mark.parametrize(
    ("words", "number", "found"), [("sessionctl re", 1, "rebuild-index"), ("sessionctl list --st", 2, "--state")]
)
def test_verbs_and_options_are_completed(words: str, number: int, found: str) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.path.join(ROOT, "python"),
        "_SESSIONCTL_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(number),
    }
    done = subprocess.run(
        [sys.executable, "-m", "turnlog"], capture_output=True, text=True, env=environment, check=False
    )
    assert f"plain,{found}" in done.stdout.splitlines()
