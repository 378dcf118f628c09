"""Record batches as bytes: header view and stamping, iteration, building, compression, columnar decode."""
