"""Errors as people meet them: what failed, where, why we think so, what to do, and a code to look up.

The catalogue is one table; `moldau explain MD-1001` prints from it, the reference page is generated from it, and a
test raises each of its codes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, NamedTuple

import click


class Explanation(NamedTuple):
    title: str
    text: str


CATALOGUE: Final[dict[str, Explanation]] = {
    "MD-1001": Explanation(
        "no broker answers",
        "Nothing accepted a connection at the bootstrap address, or it closed it at once. Start a broker with"
        " `moldau up`, or name the right address with -b HOST:PORT.",
    ),
    "MD-1002": Explanation(
        "the port is in use",
        "Another program listens on the address asked for with --listen. Stop it, or choose another port. Without"
        " --listen moldau looks for a free one by itself.",
    ),
    "MD-1003": Explanation(
        "the data directory is in use",
        "Another broker holds the lock of this data directory. One directory serves one broker; stop the other with"
        " `moldau down`, or give this one its own --data-dir.",
    ),
    "MD-1004": Explanation(
        "the answer took too long",
        "A broker accepted the connection but did not answer in time. It may be recovering its logs after a crash, or"
        " the address may belong to something that is not a broker. `moldau doctor` looks at both.",
    ),
    "MD-1005": Explanation(
        "the address cannot be listened on",
        "This machine has no such address, or the port needs rights that this user has not. `0.0.0.0` stands for every"
        " address of the machine; ports from 1024 on are for everybody.",
    ),
    "MD-1006": Explanation(
        "the data directory cannot be used",
        "It cannot be created, read or written, or it belongs to another broker. The line `why` says which. One"
        " directory serves one broker; give this one its own --data-dir, or the rights to that one.",
    ),
    "MD-2001": Explanation(
        "the settings have mistakes",
        "Every mistake is listed with the file and line, variable or option it came from. `moldau config explain KEY`"
        " tells what a key means and which values it takes.",
    ),
    "MD-2002": Explanation(
        "unknown topic",
        "The cluster has no topic of this name. Names are case-sensitive. `moldau topic list` shows what there is,"
        " `moldau topic create NAME` makes one.",
    ),
    "MD-2003": Explanation(
        "the request was refused",
        "The broker understood the request and denied it. The code is Kafka's own; the detail says which rule"
        " it broke.",
    ),
    "MD-2004": Explanation(
        "the record is too large",
        "Three limits apply: the topic's max.message.bytes, the broker's message.max.bytes, and the producer's own"
        " maximum. The first two count the compressed batch.",
    ),
    "MD-2005": Explanation(
        "the offset is out of range",
        "The log no longer holds that offset (retention or `moldau topic trim` removed it) or does not hold it yet.",
    ),
    "MD-2006": Explanation(
        "the input cannot be read",
        "A line, file, format string or option value does not have the form that this command reads.",
    ),
    "MD-2007": Explanation(
        "unknown group",
        "The cluster has no group of this name. A group exists from its first member or commit until its offsets expire"
        " (offsets.retention.minutes). `moldau group list` shows what there is.",
    ),
    "MD-2008": Explanation(
        "the group has members",
        "Offsets of a group can be moved, and the group can be deleted, only while nobody reads with it: its members"
        " would overwrite the change with their next commit. Stop them first.",
    ),
    "MD-2009": Explanation(
        "the topic is internal",
        "Offsets of groups, transactions and runs of pipelines are kept in topics of their own, whose names begin with"
        " two underscores. Deleting one loses that state for everybody; `moldau topic delete --internal` does it"
        " all the same.",
    ),
    "MD-2010": Explanation(
        "unknown profile",
        "`moldau profile list` shows the profiles and the file they are kept in; `moldau profile set NAME -b HOST:PORT`"
        " makes one.",
    ),
    "MD-2011": Explanation(
        "the group does not settle",
        "`moldau consume --group ... -e` ends when its share of the partitions is read. It did not get it in time:"
        " another member holds back what it should hand over, or members come and go all the time. What was printed"
        " is committed. `moldau group describe GROUP` shows who owns what.",
    ),
    "MD-3001": Explanation(
        "an optional part is not installed",
        "Some features need packages that the bare broker does without. The message names the command that adds them.",
    ),
    "MD-3002": Explanation(
        "no broker runs here",
        "Nobody holds the lock of this data directory, so there is nothing to stop.",
    ),
    "MD-3003": Explanation(
        "Java is missing or too old",
        "Spark runs on Java 17 or newer. It looks at JAVA_HOME first and then at the PATH. The message names the"
        " command that installs one.",
    ),
    "MD-3004": Explanation(
        "the pipeline file has mistakes",
        "Every mistake is listed with its file, line and column. `moldau pipeline validate FILE` finds them without"
        " running anything; docs/pipelines.md tells every key.",
    ),
    "MD-3005": Explanation(
        "the pipeline failed",
        "A query failed more often than its restart policy allows, or in a way that a restart cannot cure. The message"
        " names the place in your files and the first sentence of the error; the log has all of it. Nothing is lost:"
        " the next run goes on from the checkpoint.",
    ),
    "MD-3006": Explanation(
        "unknown pipeline",
        "No run of a pipeline of this name is recorded in the topic __pipelines of this cluster. Its file says which"
        " cluster (`bootstrap`) it tells about itself.",
    ),
    "MD-3007": Explanation(
        "the pipeline did not stop in time",
        "It was asked to stop and still runs: a batch may take long, or its machine cannot reach the brokers. The"
        " request stays valid.",
    ),
    "MD-3008": Explanation(
        "Spark did not start",
        "The Spark session could not be started, or the cluster or Connect server could not be reached. The log file"
        " has Spark's own words.",
    ),
    "MD-3009": Explanation(
        "the pipeline does not run",
        "There is nothing to stop: its last run has ended, or nothing has been heard of it for long. `moldau pipeline"
        " show NAME` tells what became of it.",
    ),
    "MD-3010": Explanation(
        "no log is kept here",
        "A broker in the foreground writes its log to its terminal. One that was started with `moldau up -d` keeps it"
        " in moldau.log in its data directory, at most four files of 16 MiB.",
    ),
    "MD-4001": Explanation(
        "the disk failed",
        "The operating system refused to read or write where the data lives. After a failed flush moldau stops using"
        " that directory until it is restarted, because what was written since cannot be trusted.",
    ),
    "MD-4002": Explanation(
        "the metadata is lost",
        "moldau has served this directory before, but metadata.db, where it keeps topics, their ids and their settings,"
        " is gone, damaged or older than its copy. Serving the logs with default settings could delete records that"
        " were to be kept. `moldau store restore` makes it anew from the newest sound copy beside the logs. Without a"
        " copy, `moldau up --adopt-logs` takes the topics in from disk; neither retention nor compaction touches them"
        " until `moldau topic confirm`.",
    ),
    "MD-4003": Explanation(
        "the metadata does not know these logs",
        "The directory holds records of topics that its metadata has never heard of, so a part of the metadata was lost"
        " or somebody put folders there. `moldau store restore` looks for a newer copy; `moldau up --adopt-logs` takes"
        " the topics in and keeps them whole until they are confirmed; folders that do not belong there can be moved"
        " away.",
    ),
}


class PlainError(click.ClickException):
    """A failure told in the anatomy that every moldau error has. Exit status 1."""

    def __init__(
        self, code: str, what: str, *, facts: Sequence[tuple[str, str]] = (), fixes: Sequence[str] = ()
    ) -> None:
        assert code in CATALOGUE, code
        super().__init__(what)
        self.code = code
        self.facts = tuple(facts)
        self.fixes = tuple(fixes)

    def add(self, label: str, things: Sequence[str]) -> None:
        """One more fact, that only who asked knows; none where there is nothing to name."""
        if things:
            self.facts = (*self.facts, (label, ", ".join(things)))

    def lines(self) -> list[str]:
        rows = [*self.facts, *(("fix" if i == 0 else "", fix) for i, fix in enumerate(self.fixes))]
        width = max((len(label) for label, _ in rows), default=0) + 4
        body = [f"  {label:<{width}}{text}" for label, text in rows]
        return [f"error[{self.code}]: {self.message}", *body]

    def show(self, file: object = None) -> None:
        head, *body = self.lines()
        marker, _, rest = head.partition(":")
        coloured = click.style(marker, fg="red", bold=True)
        click.echo(f"{coloured}:{rest}", err=True, color=False if os.environ.get("NO_COLOR") else None)
        for line in body:
            click.echo(line, err=True)


def run_with_plain_errors(command: click.Command, *, prog_name: str = "moldau") -> None:
    """Run a click command; world failures become plain errors, bugs still show their trace."""
    from moldau.model.failures import DiskFailed

    try:
        command.main(prog_name=prog_name, standalone_mode=True)
    except DiskFailed as failure:
        if os.environ.get("MOLDAU_TRACE"):
            raise
        PlainError("MD-4001", "the disk failed", facts=[("why", str(failure))], fixes=["moldau doctor"]).show()
        raise SystemExit(1) from None
