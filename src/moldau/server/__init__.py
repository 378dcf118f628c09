"""From socket bytes to handlers and back: connections, router, parking, one handler file per API."""
