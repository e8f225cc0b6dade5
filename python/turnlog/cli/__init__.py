"""`sessionctl`: the group, its verbs, and the way every error becomes an exit code.

Owns: the list of verbs with their short help, global options, `main`. Invariants: a verb's module is imported only
when it runs (start-up counts, and help shows the table below); `main` never lets an exception out. Must not know:
what a verb does. The verbs' modules become attributes here, `list` among them: no builtin of such a name is used below.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click

from turnlog.cli import exits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

COMPLETION = "_SESSIONCTL_COMPLETE"  # set by the script that `sessionctl completion` prints
VERBS = {  # name: (module, short help)
    "list": ("list", "List sessions, newest first."),
    "show": ("show", "Show a session, or one event of it."),
    "cat": ("cat", "Print events, one a line."),
    "tail": ("tail", "Print the last events, and follow new ones."),
    "stats": ("stats", "Count events and bytes of the store or of one session."),
    "verify": ("verify", "Check that nothing was lost or changed; writes nothing."),
    "repair": ("repair", "Plan what would make damaged sessions usable; --apply does it."),
    "rebuild-index": ("rebuild_index", "Build the index anew from the logs."),
    "resume": ("resume", "Put a session right that a dead process left, and say what is open."),
    "settle": ("settle", "Say how a tool call ended that nobody knows the outcome of."),
    "compact": ("compact", "Compress segments that are finished."),
    "rename": ("rename", "Give a session a title."),
    "tag": ("tag", "Add tags to a session, remove them, or show them."),
    "archive": ("archive", "Set sessions aside; --undo takes them up again."),
    "forget": ("forget", "Take sessions out of the store, into its quarantine."),
    "prune": ("prune", "Remove artifacts that no session refers to."),
    "fork": ("fork", "Make a session that goes on from an event of another one."),
    "diff": ("diff", "Compare two sessions from their common point on."),
    "import": ("import_", "Import transcripts of other programs."),
    "path": ("path", "Say where the store or a session is, and why there."),
    "completion": ("completion", "Print the shell's completion script."),
}


class Verbs(click.Group):
    """The group: knows its verbs by name, and imports one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the verbs in the order of the table."""
        return [*VERBS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - same
        """Import a verb, None for an unknown one."""
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(f"turnlog.cli.{VERBS[cmd_name][0]}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - same
        """Show the table, without importing every verb."""
        with formatter.section("Verbs"):
            formatter.write_dl([(name, text) for name, (_, text) in VERBS.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - same
        """Show what the exit codes mean."""
        with formatter.section("EXIT STATUS"):
            formatter.write_dl([(str(code), text) for code, text in exits.MEANINGS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; an unknown one gets the nearest names as a hint."""
        if args[0] not in VERBS and not args[0].startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = get_close_matches(args[0], VERBS)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise click.UsageError(f"there is no verb {args[0]}{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    "sessionctl",
    cls=Verbs,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option("--store", metavar="PATH", help="The store: default TURNLOG_STORE, ./.turnlog upward, the user's.")
@click.option("--json", "as_json", is_flag=True, help="Answer, and report errors, as JSON.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), help="Colour; NO_COLOR and FORCE_COLOR count.")
@click.option(
    "--traceback", is_flag=True, expose_value=False, help="Show where an error came from (or set TURNLOG_TRACEBACK=1)."
)
@click.option("--version", is_flag=True, help="Print the versions of turnlog, its core, SQLite and zstd.")
@click.pass_context
def sessionctl(context: click.Context, *, store: str | None, as_json: bool, color: str | None, version: bool) -> None:
    """Inspect, check, repair and import the sessions of AI agents.

    An ID is a session's id, a prefix of it that fits only one (4 characters or more), or `latest`; ID:ORDINAL names
    one event.
    """
    context.obj = {"store": store, "as_json": as_json, "color": color}
    if version:
        from turnlog.cli.version import show

        show(as_json=as_json)
        context.exit(exits.OK)
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        context.exit(exits.USAGE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; return its exit code."""
    words = sys.argv[1:] if arguments is None else [*arguments]
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        code = _invoke([*words])  # click takes from the list it is given
        if sys.stdout is not None:
            sys.stdout.flush()
    except SystemExit as stop:  # of a shell's completion
        return stop.code if isinstance(stop.code, int) else exits.OK
    except BaseException as error:  # noqa: BLE001 - every error has a code, a sentence and a next command
        from turnlog.cli.failure import report

        return report(error, words)
    return code


def _invoke(words: list[str]) -> int:
    """Run click without its `main`, which would turn a closed pipe into exit code 1; shells that complete need it."""
    if COMPLETION in os.environ:
        sessionctl.main(words, prog_name="sessionctl", complete_var=COMPLETION, standalone_mode=False)
    try:
        with sessionctl.make_context("sessionctl", words) as context:
            sessionctl.invoke(context)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    return exits.OK
