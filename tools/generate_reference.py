"""Write the reference pages that come from tables: settings and API support.

    python tools/generate_reference.py            write docs/reference/*.md
    python tools/generate_reference.py --check    say which pages are out of date; status 1 if any

A test runs the check, so a table and its page cannot drift apart.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from moldau.cli.local_broker import DEFAULT_DATA_DIR  # noqa: E402
from moldau.cli.up import DEFAULT_PORTS, LOOPBACK  # noqa: E402
from moldau.config import catalog  # noqa: E402
from moldau.config.explain import allowed_values, default_text  # noqa: E402
from moldau.config.tables.retired import IGNORED, REFUSED, TOPIC_RETIRED  # noqa: E402
from moldau.model.options import Effect, Option  # noqa: E402
from moldau.server.api_table import BY_KEY  # noqa: E402
from moldau.server.limits import SEND_BUFFER_BYTES_UNSET  # noqa: E402
from moldau.wire.apis import API_SPECS  # noqa: E402

PAGES = ROOT / "docs" / "reference"
GENERATED = "<!-- Written by tools/generate_reference.py from the tables in src. Do not edit. -->"
EFFECTS = {Effect.ACTS: "acts", Effect.NOT_YET: "not yet", Effect.NO_COUNTERPART: "no counterpart"}


# -- settings --------------------------------------------------------------------------------------------------------


def configuration_page() -> str:
    acting = sum(option.effect is Effect.ACTS for option in catalog.BROKER.values())
    lines = [
        "# Settings",
        "",
        GENERATED,
        "",
        "Read this if you write a configuration file or wonder what a key does. `moldau config explain KEY` shows the",
        "same on the command line.",
        "",
        "Names, types and bounds are those of Apache Kafka 4.3, and so are the defaults, with these exceptions:",
        "",
        *_other_defaults(),
        "",
        "Sources, weakest first: defaults, the file (`--config`, TOML or `server.properties`), the environment",
        "(`KAFKA_NUM_PARTITIONS`, `KAFKA_CFG_...`), the command line (`--set key=value`), then what was changed on the",
        "running broker. Values may have units: `7d`, `64MiB`. Unknown keys stop the start.",
        "",
        f"Of {len(catalog.BROKER)} broker keys {acting} act today. The column *here* says which:",
        "",
        "- **acts**: it does what Kafka's does;",
        "- **not yet**: accepted, with a line at start, and a warning where protection is missing;",
        "- **no counterpart**: accepted, with a line at start; moldau has nothing that it could steer (threads, Java",
        "  classes, Kafka's own quorum).",
        "",
        "*Changeable* says whether a key can change while the broker runs, for one broker or for all.",
        "",
    ]
    for family in catalog.FAMILIES:
        lines += _section(family.__doc__ or "", family.OPTIONS, broker=True)
    lines += _section("Topics", catalog.TOPIC.values(), broker=False, note=_topic_default)
    lines += _section("Groups", catalog.GROUP.values(), broker=False, note=_group_default)
    lines += _section("Client metrics subscriptions", catalog.CLIENT_METRICS.values(), broker=False)
    lines += _retired_section()
    lines += _non_obvious()
    return "\n".join(lines) + "\n"


def _other_defaults() -> list[str]:
    """What holds while nobody sets a key, where that is not what Kafka would use."""
    ports = [port for port in DEFAULT_PORTS if port != DEFAULT_PORTS[0]]
    rows = [
        ("`log.dirs`", "`/tmp/kafka-logs`, from `log.dir`", f"`{DEFAULT_DATA_DIR}`, by `moldau up`"),
        (
            "`listeners`",
            "`PLAINTEXT://:9092`: every address",
            f"`PLAINTEXT://{LOOPBACK}:{DEFAULT_PORTS[0]}`, or a free port of {ports[0]} to {ports[-1]}, by `moldau up`",
        ),
        ("`node.id`", "must be given", f"`{default_text(catalog.BROKER['node.id'])}`"),
        ("`process.roles`", "must be given", f"`{default_text(catalog.BROKER['process.roles'])}`"),
        ("`socket.send.buffer.bytes`", "`102400`", f"`{SEND_BUFFER_BYTES_UNSET}`"),
        ("`transaction.two.phase.commit.enable`", "`false`", "`true`"),
    ]
    return [_row(["key", "Kafka", "here"]), _row(["---"] * 3), *(_row(row) for row in rows)]


def _section(
    title: str, options: Iterable[Option], *, broker: bool, note: Callable[[Option], str] | None = None
) -> list[str]:
    head = ["key", "type", "default", "allowed", *(["changeable"] if broker else []), "here", "meaning"]
    lines = [f"## {title.rstrip('.')}", "", _row(head), _row(["---"] * len(head))]
    for option in options:
        if option.internal and not option.name.startswith("moldau."):
            continue
        meaning = option.doc + ("" if note is None else note(option))
        lines.append(
            _row(
                [
                    f"`{option.name}`",
                    option.kind.name.lower(),
                    _code(default_text(option)),
                    allowed_values(option),
                    *([option.update.value] if broker else []),
                    EFFECTS[option.effect],
                    meaning,
                ]
            )
        )
    return [*lines, ""]


def _topic_default(option: Option) -> str:
    keys = [f"`{key}`" for key, _ in catalog.TOPIC_DEFAULTS.get(option.name, ())]
    return f" Default from {', then '.join(keys)}." if keys else ""


def _group_default(option: Option) -> str:
    key = catalog.GROUP_DEFAULTS.get(option.name)
    return f" Default from `{key}`." if key else ""


def _retired_section() -> list[str]:
    lines = ["## Old names", "", "| key | on meeting it | what to do |", "| --- | --- | --- |"]
    for table, reaction in ((REFUSED, "stops"), (IGNORED, "warns"), (TOPIC_RETIRED, "refused on a topic")):
        lines += [_row([f"`{key}`", reaction, text]) for key, text in table.items()]
    return [*lines, ""]


def _non_obvious() -> list[str]:
    return [
        "## Non-obvious",
        "",
        "- Of several keys for one thing the smallest unit wins: `log.retention.ms`, then `.minutes`, then `.hours`.",
        "- `node.id`, `process.roles` and `controller.listener.names` have defaults here, so no file is needed.",
        "- `listeners` set on the running broker opens and closes listeners, and counts before the file later.",
        "- Listeners named in `controller.listener.names` are not opened: the controller lives in a broker.",
        "- A listener that would need TLS or SASL stops the start rather than being served in the clear.",
        "- `KAFKA_PORT=tcp://...` and its kind, which Kubernetes adds beside a service `kafka`, are not settings.",
        "- Without `advertised.listeners` each client is told the address it dialled.",
        "- `transaction.two.phase.commit.enable` is on here and off in Kafka: the Spark sink builds on it, and nothing",
        "  changes for producers that do not ask for it.",
    ]


def _code(text: str) -> str:
    return text if text in ("not set", "empty") else f"`{text}`"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


# -- APIs ------------------------------------------------------------------------------------------------------------


def api_support_page() -> str:
    rows = list(_api_rows())
    served = sum(1 for row in rows if row[2] != "-")
    lines = [
        "# API support",
        "",
        GENERATED,
        "",
        "Read this if a client complains about a version, or to see what is there.",
        "",
        f"Kafka 4.3 serves {len(rows)} APIs on broker listeners; moldau answers {served}. Codecs exist for all.",
        "",
        _row(["API", "key", "moldau", "Kafka 4.3", "note"]),
        _row(["---"] * 5),
        *(_row(row) for row in rows),
        "",
        "## Non-obvious",
        "",
        "- ApiVersions says what this table says: both are read from `server/api_table.py`.",
        "- Produce is advertised from version 0 and served from version 3: old librdkafka takes the advertised minimum",
        "  as a sign that compression is there.",
    ]
    return "\n".join(lines) + "\n"


def _api_rows() -> Iterator[list[str]]:
    for key, spec in sorted(API_SPECS.items()):
        if "broker" not in spec.listeners:
            continue
        api = BY_KEY.get(int(key))
        kafka = _versions(spec.min_version, spec.max_version)
        if api is None:
            yield [spec.name, str(int(key)), "-", kafka, "not yet"]
            continue
        note = "" if api.max_version == spec.max_version else "newer versions are unstable in Kafka"
        if api.unstable_with is not None:
            note = f"{spec.max_version} is unstable in Kafka; here it is advertised with `{api.unstable_with}`"
        yield [spec.name, str(int(key)), _versions(api.min_version, api.max_version), kafka, note]


def _versions(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}"


# -- writing ---------------------------------------------------------------------------------------------------------


def pages() -> dict[Path, str]:
    """Every generated page with what it should hold."""
    return {PAGES / "configuration.md": configuration_page(), PAGES / "api_support.md": api_support_page()}


def stale() -> list[Path]:
    """Pages that do not hold what the tables say."""
    return [path for path, text in pages().items() if not path.exists() or path.read_text(encoding="utf-8") != text]


def main(arguments: list[str]) -> int:
    if "--check" in arguments:
        outdated = stale()
        for path in outdated:
            print(f"{path.relative_to(ROOT)} is out of date: run python tools/generate_reference.py")
        return 1 if outdated else 0
    for path, text in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
