"""What all verbs share: common options, the EXIT STATUS section, the schema, and one `Invocation` per run.

Owns: `verb`, which makes a click command from a function. Invariants: every verb has --store, --json, --schema,
--color and --traceback, accepted behind the verb as well as before it; the function's result is the exit code.
Must not know: what any verb does.
"""

from __future__ import annotations

import click

from turnlog.cli import exits
from turnlog.cli.output import Output
from turnlog.cli.place import Place, find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from turnlog.cli.schema import Objects
    from turnlog.store import Store


class Invocation:
    """One run of a verb: its output and its store."""

    def __init__(self, verb: str, *, store: str | None, as_json: bool, color: str | None) -> None:
        """Keep the common options."""
        self.verb = verb
        self.store_option = store
        self.json = as_json
        self.out = Output(json=as_json, color=color, store=store)

    def place(self) -> Place:
        """Return which store is meant, and why."""
        return find(self.store_option)

    def open(self, *, read_only: bool = True, create: bool = False) -> Store:
        """Open the store. Raises StoreNotFound, saying why it was looked for there, and what `Store.open` raises."""
        from turnlog.errors import StoreNotFound
        from turnlog.store import Store

        place = self.place()
        try:
            return Store.open(place.path, create=create, read_only=read_only)
        except StoreNotFound as error:
            message = f"there is no store at {place.path} ({place.why})"
            raise StoreNotFound(message, store=place.path) from error

    def open_damaged(self, *, read_only: bool = True) -> Store:
        """Open the store even when its identity, `store.json`, is damaged: for the verbs that look into that."""
        from turnlog.errors import Damaged
        from turnlog.store import Store

        try:
            return self.open(read_only=read_only)
        except Damaged:
            return Store(self.place().path, read_only=True)


class Verb(click.Command):
    """A command whose help ends in its exit codes."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """List the codes this verb can give."""
        name = self.name or ""
        with formatter.section("EXIT STATUS"):
            formatter.write_dl([(str(code), exits.meaning(name, code)) for code in exits.codes_of(name)])


def verb(
    name: str, objects: Objects, params: Sequence[click.Parameter] = ()
) -> Callable[[Callable[..., int]], click.Command]:
    """Make a command of a function (invocation, **params) -> exit code; `objects` are the types of its JSON answer."""

    def make(body: Callable[..., int]) -> click.Command:
        @click.pass_context
        def run(context: click.Context, /, **options: Any) -> None:
            above = context.obj or {}
            invocation = Invocation(
                name,
                store=options.pop("store") or above.get("store"),
                as_json=options.pop("as_json") or bool(above.get("as_json")),
                color=options.pop("color") or above.get("color"),
            )
            code = body(invocation, **options)
            invocation.out.flush()
            context.exit(code)

        return Verb(name, callback=run, params=[*params, *_common(name, objects)], help=body.__doc__)

    return make


def _common(name: str, objects: Objects) -> list[click.Parameter]:
    def show_schema(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
        if wanted and not context.resilient_parsing:
            from turnlog.cli.schema import as_text

            click.echo(as_text(name, objects))
            context.exit(exits.OK)

    return [
        click.Option(["--store"], metavar="PATH", help="The store to use."),
        click.Option(["--json", "as_json"], is_flag=True, help="Answer in JSON: one object a line, each with a type."),
        click.Option(
            ["--schema"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=show_schema,
            help="Print the JSON schema of the answer's objects.",
        ),
        click.Option(["--color"], type=click.Choice(["auto", "always", "never"]), help="When to use colour."),
        click.Option(["--traceback"], is_flag=True, expose_value=False, help="Show where an error came from."),
    ]
