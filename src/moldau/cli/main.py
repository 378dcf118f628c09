"""The root of the `moldau` command: a table of subcommands, each imported only when it runs.

`moldau --help` must answer within 150 ms, so this module imports nothing but click, and the one-line help texts
of the subcommands live in the table below instead of in their modules (a test keeps the two equal).
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from moldau import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Subcommand(NamedTuple):
    module: str
    attribute: str
    summary: str


SUBCOMMANDS: Final[dict[str, Subcommand]] = {
    "up": Subcommand("moldau.cli.up", "up", "Start a broker on this machine."),
    "down": Subcommand("moldau.cli.down", "down", "Stop the broker of a data directory."),
    "status": Subcommand("moldau.cli.status", "status", "Tell whether a broker serves a data directory, and where."),
    "logs": Subcommand("moldau.cli.logs", "logs", "Print the log of a broker that runs in the background."),
    "topic": Subcommand("moldau.cli.topic", "topic", "Create, list, describe, grow, trim and delete topics."),
    "produce": Subcommand("moldau.cli.produce", "produce", "Send records from standard input to a topic."),
    "consume": Subcommand("moldau.cli.consume", "consume", "Print records of one or more topics."),
    "group": Subcommand("moldau.cli.group", "group", "List, describe, seek and delete groups; show their lag."),
    "txn": Subcommand("moldau.cli.txn", "txn", "List, describe and abort transactions; find hanging ones."),
    "pipeline": Subcommand("moldau.cli.pipeline", "pipeline", "Run, check, list, show and stop pipelines on Spark."),
    "config": Subcommand("moldau.cli.config", "config", "Show, change and explain settings."),
    "cluster": Subcommand("moldau.cli.cluster", "cluster", "Show brokers, health and disk use."),
    "profile": Subcommand(
        "moldau.cli.profile", "profile", "Name clusters, so that --profile NAME stands for their address."
    ),
    "log": Subcommand("moldau.cli.log", "log", "Look inside log segments on disk."),
    "store": Subcommand(
        "moldau.cli.store", "store", "Check the metadata of a data directory, and restore it from its copy."
    ),
    "doctor": Subcommand("moldau.cli.doctor", "doctor", "Check this machine, the settings and a running cluster."),
    "demo": Subcommand("moldau.cli.demo", "demo", "Show the whole product at work, then clean up."),
    "explain": Subcommand("moldau.cli.explain", "explain", "Explain an error code such as MD-1001."),
    "completion": Subcommand(
        "moldau.cli.completion", "completion", "Print a script that completes verbs, topics and groups."
    ),
    "version": Subcommand("moldau.cli.version", "version", "Show versions of moldau and of what it runs on."),
}


class LazyGroup(click.Group):
    """A click group whose commands come from a table and are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = SUBCOMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = getattr(importlib.import_module(entry.module), entry.attribute)
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """From the table: importing every verb for its help would take longer than people wait for a Tab."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        found = [(name, entry) for name, entry in SUBCOMMANDS.items() if name.startswith(incomplete)]
        return [CompletionItem(name, help=entry.summary) for name, entry in found]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in SUBCOMMANDS and not args[0].startswith("-"):
            self._suggest(ctx, args[0])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader of our output has enough (`moldau consume t | head`); that is not an error of ours, and click
            # would make one of it. What is still buffered must not fail again while Python ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in SUBCOMMANDS.items()])

    def _suggest(self, ctx: click.Context, name: str) -> None:
        import difflib

        near = difflib.get_close_matches(name, SUBCOMMANDS, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        ctx.fail(f"No such command '{name}'.{hint}")


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, "-V", "--version", prog_name="moldau", message="%(prog)s %(version)s")
@click.pass_context
def root(ctx: click.Context) -> None:
    """moldau: a commit log in Python that speaks the Kafka protocol.

    \b
    Start a broker:      moldau up
    Try it:              moldau topic create orders -p 3
                         echo hello | moldau produce orders
                         moldau consume orders -o start -e
    """
    if os.environ.get("NO_COLOR"):  # https://no-color.org; click does not ask for it
        ctx.color = False


def main() -> None:
    """Run the command; a known failure prints one screen of plain words instead of a stack trace."""
    from moldau.cli.errors import run_with_plain_errors

    run_with_plain_errors(root)
