"""What an operator may set about transactions."""

from __future__ import annotations

from typing import NamedTuple


class TransactionSettings(NamedTuple):
    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    abort_interval_ms: int = 10_000
    expiration_interval_ms: int = 3_600_000
    two_phase_commit: bool = True
    """Whether a transaction may go without a timeout (KIP-939)."""
    transaction_version: int = 2
    """The finalised level of the feature: what the broker uses for transactions it ends by itself."""
