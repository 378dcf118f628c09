"""Absolute bounds on what a peer may ask of us. Settings may lower them, nothing raises them."""

from __future__ import annotations

from typing import Final

REQUEST_BYTES_MAX: Final = 100 * 1024 * 1024
"""`socket.request.max.bytes`: the largest request frame."""

REQUEST_BYTES_MAX_UNAUTHENTICATED: Final = 512 * 1024
"""The largest frame before authentication has finished, on listeners that ask for it."""

DECOMPRESSED_BYTES_MAX: Final = 256 * 1024 * 1024
"""What one compressed batch may inflate to."""

DECOMPRESSION_RATIO_MAX: Final = 2048
"""How many bytes one compressed byte may become, beyond a small allowance for tiny batches."""

DECOMPRESSION_ALLOWANCE_BYTES: Final = 4 * 1024 * 1024
"""Batches that inflate to no more than this are never refused for their ratio."""

ARRAY_ELEMENTS_MAX: Final = 1_000_000
"""Elements of one array in a request, whatever the frame could hold."""

REQUEST_ELEMENTS_MAX: Final = 100_000
"""Elements of all arrays of one request to a broker: more than it has partitions, groups or topics to be named."""

REQUEST_ELEMENTS_MAX_FEW: Final = 20_000
"""The same for requests whose elements cost much each, or of which there never are many."""

TAGGED_FIELDS_MAX: Final = 1_000
"""Tagged fields of one struct; a peer that sends more is broken or hostile."""
