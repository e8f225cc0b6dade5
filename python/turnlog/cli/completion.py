"""`sessionctl completion`: the script that makes a shell complete verbs and options.

Owns: nothing; click writes the script. Must not know: stores.
"""

from __future__ import annotations

import click

from turnlog.cli import exits
from turnlog.cli.command import Invocation, verb

_SHELLS = ("bash", "fish", "zsh")
OBJECTS = {"completion": {"shell": "string", "script": "string"}}


@verb("completion", OBJECTS, [click.Argument(["shell"], type=click.Choice(_SHELLS))])
def command(call: Invocation, shell: str) -> int:
    """Print the completion script of a shell. For bash: eval "$(sessionctl completion bash)"."""
    from click.shell_completion import get_completion_class

    context = click.get_current_context().find_root()
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    from turnlog.cli import COMPLETION

    script = kind(context.command, {}, "sessionctl", COMPLETION).source()
    if call.json:
        call.out.object("completion", {"shell": shell, "script": script})
    else:
        call.out.line(script)
    return exits.OK
