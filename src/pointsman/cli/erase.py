"""`erase`: text that must go, from every store of the home."""

from __future__ import annotations

import click

from pointsman.cli.groups import ExampleCommand
from pointsman.cli.terms import Session, command, count_text, waits
from pointsman.errors import InputError
from pointsman.kernel.document import printable
from pointsman.operations.erasure.erase import ErasurePlan, ErasureReport
from pointsman.operations.erasure.scope import ErasureScope, What


@click.command(cls=ExampleCommand)
@click.option("--turn", metavar="ID", help="The text of one turn, job or decision.")
@click.option("--session", "session_id", metavar="ID", help="All of a session and its workers.")
@click.option("--key", "key_id", metavar="ID", help="All that came with a key.")
@click.option("--tenant", metavar="NAME", help="All of a tenant.")
@click.option("--before", metavar="INSTANT", help="All that is older (RFC 3339).")
@click.option("--expired", is_flag=True, help="Text past its days in `retention:`.")
@click.option("--dry-run", is_flag=True, help="Tell what would go, and change nothing.")
@command
@waits("erasing")
def erase(  # noqa: PLR0913, PLR0917 - each is one way to say whose text goes
    session: Session,
    turn: str | None,
    session_id: str | None,
    key_id: str | None,
    tenant: str | None,
    before: str | None,
    expired: bool,  # noqa: FBT001 - click passes flags so
    dry_run: bool,  # noqa: FBT001 - as above
) -> None:
    """Erase text for good; decisions, their chain and their proof stay."""
    given: dict[What, str | None] = {
        "turn": turn, "session": session_id, "key": key_id, "tenant": tenant, "before": before,
    }  # fmt: skip
    scopes = [ErasureScope(what, value) for what, value in given.items() if value is not None]
    if len(scopes) + expired != 1:
        hint = "one of --turn, --session, --key, --tenant, --before, --expired"
        raise InputError("say whose text goes, and only that", hint=hint)
    with session.open() as pointsman:
        eraser = pointsman.eraser
        if expired:
            reports = eraser.erase_expired("cli", is_dry=dry_run)
        elif dry_run:
            reports = [ErasureReport(eraser.plan(scopes[0]), is_done=False)]
        else:
            reports = [eraser.erase(scopes[0], "cli")]
    told = [line for each in reports for line in _lines(each)]
    session.show("\n".join(told) or "nothing has expired", {"erasures": reports})


def _lines(report: ErasureReport) -> list[str]:
    plan = report.plan
    reach = f"{count_text(plan.texts, 'text')} of {count_text(plan.turns, 'turn')}"
    by = f"looked at by {count_text(plan.decisions, 'decision')}"
    lines = [f"{plan.scope.what} {plan.scope.value}: {reach}, {by}"]
    lines += _staying(plan)
    if report.is_done:
        lines.append(
            f"erased     {count_text(report.texts, 'text')}, "
            f"{count_text(report.messages, 'message')}, {count_text(report.looks, 'look')}; "
            f"entry {report.order}"
        )
    else:
        lines.append("dry run    nothing was changed")
    return [printable(line) for line in lines]


def _staying(plan: ErasurePlan) -> list[str]:
    lines = []
    if plan.held:
        lines.append(f"held       {count_text(plan.held, 'text')}, by {', '.join(plan.holds)}")
    if plan.young:
        lines.append(f"too young  {count_text(plan.young, 'text')}, by the floor of `retention:`")
    return lines
