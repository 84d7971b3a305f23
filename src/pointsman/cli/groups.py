"""Commands and groups: help that ends with examples, and the nearest name for a mistyped one."""

from __future__ import annotations

import click


class ExampleCommand(click.Command):
    """A command whose help ends with its examples."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples below the options."""
        super().format_epilog(ctx, formatter)
        _write_examples(ctx, formatter)


class CommandGroup(click.Group):
    """A group of commands: names the nearest one where there is none of a name."""

    command_class = ExampleCommand
    group_class = type

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples of the group itself, if it does something alone."""
        super().format_epilog(ctx, formatter)
        _write_examples(ctx, formatter)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was typed; name the nearest where there is none."""
        name, known = args[0], self.list_commands(ctx)
        if name not in known and not name.startswith("-") and not ctx.resilient_parsing:
            # Loaded for a mistyped command alone.
            from pointsman.kernel.nearest import nearest  # noqa: PLC0415 - see above

            near = nearest(name, known)
            ctx.fail(f"no command `{name}`" + (f" (did you mean `{near}`?)" if near else ""))
        return super().resolve_command(ctx, args)


def command_words(ctx: click.Context) -> str:
    """Return the words of a command without the program's name: `rules diff`."""
    words: list[str] = []
    at: click.Context | None = ctx
    while at is not None and at.parent is not None:
        words.insert(0, at.info_name or "")
        at = at.parent
    return " ".join(words)


def _write_examples(ctx: click.Context, formatter: click.HelpFormatter) -> None:
    words = command_words(ctx)
    if not words:
        return
    # Imported here: only help shows examples.
    from pointsman.cli.examples import EXAMPLES  # noqa: PLC0415 - see above

    examples = EXAMPLES.get(words, ())
    if examples:
        with formatter.section("Examples"):
            for line in examples:
                formatter.write(f"  pointsman {line}\n")
