"""Record batches (format v2) as bytes: header and stamping, validation, iteration, building, compression."""
