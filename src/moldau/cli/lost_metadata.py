"""A start that stopped because metadata is missing, told with what was found and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from moldau.cli.errors import PlainError
from moldau.cli.local_broker import data_dir_option
from moldau.cli.output import counted, human_bytes

if TYPE_CHECKING:
    from moldau.node.failures import MetadataLost, UnknownLogs

LOGS_SHOWN: Final = 10


def explained(failure: MetadataLost | UnknownLogs) -> PlainError:
    from moldau.node.failures import UnknownLogs

    option = data_dir_option(Path(failure.directory))
    restore = f"moldau store restore{option}"
    adopt = f"or go on without, nothing deleted until you confirm: moldau up{option} --adopt-logs"
    if isinstance(failure, UnknownLogs):
        return PlainError(
            "MD-4003",
            "the metadata does not know these logs",
            facts=[("data", failure.directory), *_logs(failure)],
            fixes=[restore, adopt, "or move folders that do not belong there out of the directory"],
        )
    facts = [("data", failure.directory), ("why", failure.why)]
    facts.append(("copy", failure.copies or "none that is sound and newer lies in the log directories"))
    if failure.copy_path and Path(failure.copy_path).parent != Path(failure.directory):
        restore += f" --from {failure.copy_path}"  # `store` looks only at the first directory by itself
    fixes = [restore if failure.copies else f"with a copy from elsewhere: {restore} --from FILE", adopt]
    return PlainError("MD-4002", "the metadata is lost", facts=facts, fixes=fixes)


def _logs(failure: UnknownLogs) -> list[tuple[str, str]]:
    rows = [f"{name}, {human_bytes(size_bytes)}" for name, size_bytes in failure.logs[:LOGS_SHOWN]]
    left_out = len(failure.logs) - len(rows)
    rows += [f"and {counted(left_out, 'more log')}"] if left_out > 0 else []
    return [("logs" if number == 0 else "", row) for number, row in enumerate(rows)]
