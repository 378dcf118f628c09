"""Which leader epoch wrote which offsets (KIP-101, KIP-279), and the text of `leader-epoch-checkpoint`.

Entries are (epoch, start offset), both strictly rising. The epoch of the last entry is the log's current one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1
CHECKPOINT_VERSION: Final = 0


class EpochHistory:
    """The leader epochs of one partition's log."""

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start_offset in entries or []:
            self.assign(epoch, start_offset)

    @property
    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    @property
    def latest_epoch(self) -> int:
        """The newest epoch, or -1."""
        return self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    @property
    def earliest_entry(self) -> tuple[int, int] | None:
        return (self._epochs[0], self._starts[0]) if self._epochs else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` writes from `start_offset` on. True when this added or changed an entry.

        Entries that the new one contradicts (a later epoch or a later start) are removed first: they describe a tail
        that was truncated and written again.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"leader epoch {epoch} from offset {start_offset} cannot be")
        if self._epochs and self._epochs[-1] == epoch and self._starts[-1] <= start_offset:
            return False
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start_offset):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(largest known epoch <= `epoch`, its exclusive end offset), or (-1, -1) when that cannot be known.

        This is the answer to OffsetForLeaderEpoch: a follower truncates to the end offset it is told. An epoch older
        than the first entry ends where the first entry starts.
        """
        if epoch == UNDEFINED_EPOCH or not self._epochs or epoch > self._epochs[-1]:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        next_slot = bisect_right(self._epochs, epoch)
        if next_slot == 0:
            return epoch, self._starts[0]
        return self._epochs[next_slot - 1], self._starts[next_slot]

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch that wrote `offset`, or -1 when it lies before the history."""
        slot = bisect_right(self._starts, offset) - 1
        return self._epochs[slot] if slot >= 0 else UNDEFINED_EPOCH

    def start_offset_of(self, epoch: int) -> int:
        """Where `epoch` starts, or -1 when it is unknown."""
        slot = bisect_left(self._epochs, epoch)
        if slot < len(self._epochs) and self._epochs[slot] == epoch:
            return self._starts[slot]
        return UNDEFINED_OFFSET

    def truncate_from_end(self, end_offset: int) -> bool:
        """Forget epochs that start at or after `end_offset`. True when something changed."""
        keep = bisect_left(self._starts, end_offset)
        if end_offset < 0 or keep == len(self._starts):
            return False
        del self._epochs[keep:]
        del self._starts[keep:]
        return True

    def truncate_from_start(self, start_offset: int) -> bool:
        """Forget epochs that end at or before `start_offset`; the one that holds it now starts there.

        An entry that starts exactly at `start_offset`, and an empty rest of the log, keep the newest entry, so that
        the current epoch is never lost. True when something changed.
        """
        holder = bisect_right(self._starts, start_offset) - 1
        if holder < 0 or (holder == 0 and self._starts[0] == start_offset):
            return False
        del self._epochs[:holder]
        del self._starts[:holder]
        self._starts[0] = start_offset
        return True

    def clear(self) -> None:
        self._epochs.clear()
        self._starts.clear()

    def encode(self) -> str:
        """The text of `leader-epoch-checkpoint`: version, count, then one `epoch offset` line each."""
        lines = [str(CHECKPOINT_VERSION), str(len(self._epochs))]
        lines += [f"{epoch} {start}" for epoch, start in self.entries]
        return "\n".join(lines) + "\n"

    @classmethod
    def decode(cls, text: str) -> EpochHistory:
        """Read the checkpoint's text; ValueError says what is wrong with it."""
        lines = text.splitlines()
        if len(lines) < 2 or lines[0].strip() != str(CHECKPOINT_VERSION):
            raise ValueError("not a leader epoch checkpoint of version 0")
        expected = int(lines[1])
        rows = [line.split() for line in lines[2:] if line.strip()]
        if len(rows) != expected:
            raise ValueError(f"{len(rows)} epoch entries where {expected} were announced")
        history = cls()
        for row in rows:
            if len(row) != 2:
                raise ValueError(f"malformed epoch entry {' '.join(row)!r}")
            history.assign(int(row[0]), int(row[1]))
        return history
