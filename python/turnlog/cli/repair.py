"""`sessionctl repair`: prints what would make damaged sessions usable again; `--apply` carries it out.

Owns: consent, the order store then sessions, and the report before and after. Invariants: nothing is written without
--apply; after applying, the session is verified and the index reads it anew; one session that cannot be repaired does
not keep the others from it. Must not know: how a repair is done.
"""

from __future__ import annotations

import click

from turnlog import names
from turnlog.cli import exits
from turnlog.cli.command import Invocation, verb
from turnlog.cli.failure import describe
from turnlog.cli.place import session_of
from turnlog.cli.progress import Progress
from turnlog.cli.terminal import count, escape
from turnlog.cli.verify import FINDING, show_finding, witness_of
from turnlog.errors import IndexUnavailable, TurnlogError
from turnlog.log.lock import is_locked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from turnlog.cli.output import Output
    from turnlog.repair.mending import Action
    from turnlog.repair.repair import Plan
    from turnlog.store import Store

OBJECTS: dict[str, dict[str, Any]] = {
    "action": {
        **dict.fromkeys(("kind", "segment", "text"), "string"),
        "session": "string?",
        "lost": "[[integer]]",
        "applied": "boolean",
    },
    "refused": {"session": "string", "verdict": "string", "reason": "string"},
    "finding": FINDING,
    "summary": {
        "store": "string",
        "applied": "boolean",
        **dict.fromkeys(("sessions", "to_repair", "repaired", "refused", "actions"), "integer"),
        "next": "[string]",
    },
}


@verb(
    "repair",
    OBJECTS,
    [
        click.Argument(["session_ids"], metavar="[ID]...", nargs=-1),
        click.Option(["--apply"], is_flag=True, help="Carry the plan out. Without it nothing is written."),
        click.Option(
            ["--accept-tail"], is_flag=True, help="Also cut an end that does not look like an unfinished write."
        ),
    ],
)
def command(call: Invocation, *, session_ids: tuple[str, ...], apply: bool, accept_tail: bool) -> int:
    """Plan the repair of sessions (default: all, and the store itself); --apply carries it out, then verifies.

    Nothing is deleted: what is taken out of the way lies in the store's quarantine folder, and events that are lost
    stay named in the log.
    """
    with call.open_damaged() as store, Progress("repairing") as progress:
        work = Repair(call.out, store, progress, apply=apply, accept_tail=accept_tail)
        wanted = [store.resolve(session_of(text)) for text in session_ids]
        if not session_ids:
            work.store_itself()
        for session_id in wanted or store.session_ids():
            work.session(session_id)
    if apply and work.repaired:
        _index_anew(call, work.repaired)
    return work.end(session_ids)


class Repair:
    """Plans, and perhaps applies, session by session."""

    def __init__(self, out: Output, store: Store, progress: Progress, *, apply: bool, accept_tail: bool) -> None:
        """Start with nothing planned."""
        self.repaired: list[str] = []
        self._out = out
        self._store = store
        self._progress = progress
        self._apply = apply
        self._accept_tail = accept_tail
        self._sessions = self._planned = self._actions = self._refused = 0
        self._codes: set[int] = set()

    def store_itself(self) -> None:
        """Plan and perhaps repair `store.json`."""
        from turnlog.repair.repair import plan_store

        plan = plan_store(self._store.path)
        if plan.actions:
            self._planned += 1
            self._tell(None, plan.actions)
            if self._apply:
                plan.apply()

    def session(self, session_id: str) -> None:
        """Plan and perhaps repair one session; what keeps it from being repaired is told, and the next one follows."""
        from turnlog.repair.repair import plan_session

        self._sessions += 1
        try:
            if is_locked(names.session_dir(self._store.path, session_id)):
                self._refuse(session_id, "LOCKED", "a live writer holds the session", exits.LOCKED)
                return
            witness = witness_of(self._store, session_id)
            plan = plan_session(self._store.path, session_id, witness=witness, accept_tail=self._accept_tail)
            for verdict, reason in plan.refusals:
                self._refuse(session_id, verdict, reason, exits.REFUSED)
            if plan.actions:
                self._planned += 1
                self._tell(session_id, plan.actions)
            if plan.actions and self._apply and not plan.refusals:
                self._carry_out(plan)
        except TurnlogError as error:
            code, fields = describe(error)
            self._refuse(session_id, fields["code"], str(error), code)

    def _carry_out(self, plan: Plan) -> None:
        check = plan.apply(self._progress.add)
        self._progress.clear()
        self.repaired.append(plan.session)
        for finding in check.findings:
            show_finding(self._out, finding)
        if not check.ok:
            self._codes.add(exits.NO)

    def _tell(self, session_id: str | None, actions: Sequence[Action]) -> None:
        self._progress.clear()
        self._actions += len(actions)
        for action in actions:
            if self._out.json:
                fields = {name: value for name, value in action.as_json().items() if name != "type"}
                self._out.object("action", {**fields, "session": session_id, "applied": self._apply})
            else:
                self._out.line(f"{session_id or 'store'}  {escape(action.text)}")

    def _refuse(self, session_id: str, verdict: str, reason: str, code: int) -> None:
        self._progress.clear()
        self._refused += 1
        self._codes.add(code)
        if self._out.json:
            self._out.object("refused", {"session": session_id, "verdict": verdict, "reason": reason})
        else:
            self._out.line(self._out.paint(f"{session_id}  refused: {verdict}: {escape(reason)}", "red"))

    def end(self, session_ids: Sequence[str]) -> int:
        """Print the summary; return the exit code."""
        waiting = self._planned and not self._apply
        following = []
        if waiting:
            options = ["--apply", "--accept-tail"] if self._accept_tail else ["--apply"]
            following.append(self._out.following(" ".join(["sessionctl repair", *options, *session_ids])))
        if self._out.json:
            numbers = {"sessions": self._sessions, "to_repair": self._planned, "actions": self._actions}
            done = {"repaired": len(self.repaired), "refused": self._refused, "applied": self._apply}
            self._out.object("summary", {**numbers, **done, "store": self._store.path, "next": following})
        elif waiting:
            self._out.line(f"{count(self._actions, 'action')} planned, nothing written")
            self._out.advise(following[0])
        elif self._planned:
            self._out.line(f"{count(self._actions, 'action')} done, {count(len(self.repaired), 'session')} repaired")
        elif not self._refused:
            self._out.line(f"nothing to repair in {count(self._sessions, 'session')}")
        if waiting:
            self._codes.add(exits.NO)
        if len(self._codes) > 1:
            return exits.NO if waiting else exits.PARTIAL
        code = self._codes.pop() if self._codes else exits.OK
        return exits.PARTIAL if code and self.repaired and len(session_ids) != 1 else code


def _index_anew(call: Invocation, session_ids: Sequence[str]) -> None:
    """Let the index read the repaired logs from their start: what it remembers of them is what was before."""
    with call.open(read_only=False) as store:
        try:
            index = store.index()
            for session_id in session_ids:
                index.forget(session_id)
            index.catch_up()
        except IndexUnavailable as error:
            call.out.note(f"repaired, but the index could not be told ({error}): sessionctl rebuild-index")
