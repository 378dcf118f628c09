"""The serial command loop over core.metadata: decide, append to the metadata log, publish the image."""
