"""Tools around the message tables in src/moldau/wire/schema: reading them, importing facts, generating code."""
