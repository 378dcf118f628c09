"""Message classes and codecs, one module per API or record. Generated; import only what is needed."""
