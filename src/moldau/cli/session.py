"""What the commands that talk to a cluster share: the bootstrap option, one event loop run, plain errors."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from moldau.cli import profiles
from moldau.cli.completing import profile_names
from moldau.cli.errors import PlainError
from moldau.cli.local_broker import DEFAULT_IN_WORDS, default_bootstrap
from moldau.cli.output import counted
from moldau.cli.quantities import SECONDS
from moldau.client.cluster import Cluster, parse_bootstrap
from moldau.client.failures import AnswerTimedOut, BrokerRefused, NoBrokerAnswers, UnknownPartition
from moldau.model.errors import ErrorCode
from moldau.model.failures import PeerGone, WireError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_TIMEOUT = "10s"


def _default_bootstrap() -> str:
    profile = profiles.needed()
    return default_bootstrap() if profile is None else profile.bootstrap


def _default_timeout() -> str:
    profile = profiles.chosen()
    return DEFAULT_TIMEOUT if profile is None or profile.timeout is None else profile.timeout


def _check_bootstrap(context: click.Context, _parameter: click.Parameter, value: str) -> str:
    profile = profiles.chosen()
    typed = context.get_parameter_source("profile") is ParameterSource.COMMANDLINE
    if profile is not None and typed and context.get_parameter_source("bootstrap") is ParameterSource.ENVIRONMENT:
        value = profile.bootstrap  # what is typed beats what lies about
    try:
        parse_bootstrap(value)
    except ValueError as mistake:
        raise click.BadParameter(str(mistake)) from None
    return value


_PROFILE: Callable[[F], F] = click.option(
    "--profile",
    envvar=profiles.VARIABLE,
    show_envvar=True,
    expose_value=False,
    is_eager=True,
    callback=profiles.choose,
    shell_complete=profile_names,
    metavar="NAME",
    help="A cluster by name: moldau profile --help",
)
_BOOTSTRAP: Callable[[F], F] = click.option(
    "-b",
    "--bootstrap-server",
    "--bootstrap-servers",
    "--brokers",
    "bootstrap",
    default=_default_bootstrap,
    show_default=DEFAULT_IN_WORDS,
    envvar=["MOLDAU_BOOTSTRAP", "KAFKA_BOOTSTRAP_SERVERS"],
    show_envvar=True,
    callback=_check_bootstrap,
    metavar="HOST:PORT,...",
    help="Where to find the cluster.",
)


def BOOTSTRAP(command: F) -> F:
    """`-b` and `--profile`: which cluster, as the argument `bootstrap`."""
    return _BOOTSTRAP(_PROFILE(command))


TIMEOUT: Callable[[F], F] = click.option(
    "--timeout",
    "timeout_s",
    type=SECONDS,
    default=_default_timeout,
    show_default=DEFAULT_TIMEOUT,
    help="How long to wait for an answer; a bare number is seconds.",
)


def with_cluster(bootstrap: str, work: Callable[[Cluster], Awaitable[T]], *, timeout_s: float = 10.0) -> T:
    """Connect, do the work, disconnect; whatever goes wrong is told in plain words."""
    from moldau.runtime.net import RealNetwork

    async def session() -> T:
        async with Cluster(RealNetwork(), bootstrap, timeout_s=timeout_s) as cluster:
            try:
                return await work(cluster)
            except BrokerRefused as refusal:
                raise await _explain_refusal(cluster, refusal) from refusal

    try:
        return asyncio.run(session())
    except NoBrokerAnswers as failure:
        raise PlainError(
            "MD-1001",
            "no broker answers",
            facts=[("where", failure.addresses), ("why", failure.why)],
            fixes=["moldau up", "or name another address" + (" with -b HOST:PORT" if _takes("-b") else "")],
        ) from failure
    except AnswerTimedOut as failure:
        raise PlainError(
            "MD-1004",
            "the answer took too long",
            facts=[("where", failure.address), ("asked", f"{failure.api_name}, waited {failure.timeout_s:g} s")],
            fixes=["moldau doctor", *(["or wait longer: --timeout 1m"] if _takes("--timeout") else [])],
        ) from failure
    except (PeerGone, WireError) as failure:
        raise PlainError(
            "MD-1001", "the broker went away", facts=[("why", str(failure))], fixes=["moldau doctor"]
        ) from failure


def _takes(option: str) -> bool:
    """Whether the verb that runs has this option, so that nobody is told to use one that is not there."""
    context = click.get_current_context(silent=True)
    return context is not None and any(option in parameter.opts for parameter in context.command.params)


def _runs(*names: str) -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and context.command.name in names


async def _explain_refusal(cluster: Cluster, refusal: BrokerRefused) -> PlainError:
    if refusal.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return await _explain_unknown_topic(cluster, refusal)
    facts = [("code", f"{refusal.code.name} ({int(refusal.code)})")]
    if refusal.subject:
        facts.insert(0, ("on", refusal.subject))
    if refusal.detail:
        facts.append(("detail", refusal.detail))
    if refusal.code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
        topic = refusal.subject.rpartition("-")[0] or refusal.subject or "TOPIC"
        return PlainError(
            "MD-2004",
            "the record is too large",
            facts=facts,
            fixes=[f"moldau config set topic {topic} max.message.bytes=BYTES"],
        )
    if refusal.code is ErrorCode.OFFSET_OUT_OF_RANGE:
        return PlainError("MD-2005", "the offset is out of range", facts=facts, fixes=["use -o start or -o end"])
    return PlainError("MD-2003", "the request was refused", facts=facts)


async def _explain_unknown_topic(cluster: Cluster, refusal: BrokerRefused) -> PlainError:
    if isinstance(refusal, UnknownPartition):
        return PlainError(
            "MD-2002",
            "unknown partition",
            facts=[("partition", str(refusal.partition)), ("why", refusal.detail)],
            fixes=[f"moldau topic describe {refusal.partition.topic}"],
        )
    subject = refusal.subject or "the topic"
    facts = [("topic", subject)] + ([("detail", refusal.detail)] if refusal.detail else [])
    wanted = refusal.subject and not refusal.detail and _runs("produce", "consume")
    fixes = [f"moldau topic create {refusal.subject}"] if wanted else []
    try:
        await cluster.refresh(None)
    except (BrokerRefused, PeerGone, NoBrokerAnswers, AnswerTimedOut):
        return PlainError("MD-2002", "unknown topic", facts=facts, fixes=fixes)
    near = difflib.get_close_matches(subject, list(cluster.topics), n=1)
    if near:
        facts.append(("did you mean", near[0]))
    count = sum(not view.is_reserved for view in cluster.topics.values())  # as `moldau topic list` counts
    facts.append(("cluster", f"{cluster.bootstrap} has {counted(count, 'topic')}"))
    return PlainError("MD-2002", "unknown topic", facts=facts, fixes=[*fixes, "moldau topic list"])
