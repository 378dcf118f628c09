"""From API key and version to the handler, and from its result to bytes.

Compiled. One `Route` per row of `api_table.APIS`; handler and codec modules are loaded when first asked for. Produce
and Fetch do not come through here: the connection calls them directly.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final

from mypy_extensions import i64

from moldau.model.errors import ErrorCode
from moldau.server import slices
from moldau.server.api_table import APIS, Api
from moldau.server.context import RequestContext
from moldau.server.replies import Drop, Encoded
from moldau.wire.apis import API_SPECS, ApiKey, request_codec, response_codec
from moldau.wire.primitives import Reader, Writer

API_KEYS_MAX: Final = 128
NEVER: Final = 1 << 15


class Route:
    """One API: accepted versions, codecs, handler, and how often it was asked."""

    def __init__(self, api: Api) -> None:
        spec = API_SPECS[api.key]
        self.api = api
        self.key: i64 = int(api.key)
        self.name: str = api.name
        self.min_version: i64 = api.min_version
        self.max_version: i64 = api.max_version
        self.flexible_from: i64 = NEVER if spec.flexible_from is None else spec.flexible_from
        # The ApiVersions response header never has tagged fields: a client that does not know our versions yet must
        # be able to read it.
        self.reply_flexible_from: i64 = NEVER if api.key is ApiKey.API_VERSIONS else self.flexible_from
        self.elements_max: i64 = api.elements_max
        self.sliced: str = api.sliced
        self.before_authentication: bool = api.before_authentication
        self.requests: i64 = 0
        self.bugs: i64 = 0
        self._module: Any = None
        self._handle: Any = None
        self._decode: Any = None
        self._encode: Any = None

    def decode(self, reader: Reader, version: i64) -> Any:
        """The request, or `WireError` for a bad peer."""
        if self._decode is None:
            self._load()
        return self._decode(reader, int(version))

    def call(self, request: Any, context: RequestContext) -> Any:
        if self._handle is None:
            self._load()
        if self.sliced and len(getattr(request, self.sliced)) > slices.ABOVE:
            flexible = context.api_version >= self.flexible_from
            return slices.answer(self._handle, self._encode, request, self.sliced, context, flexible=flexible)
        return self._handle(request, context)

    def encode(self, response: Any, writer: Writer, version: i64) -> None:
        if isinstance(response, Encoded):
            writer.raw(response.body)
            return
        if self._encode is None:
            self._load()
        self._encode(response, writer, int(version))

    def refusal(self, request: Any, context: RequestContext, code: ErrorCode, detail: str) -> Any:
        """The answer when the whole request fails: the handler's own, or the response's top-level error field (the
        only way when the request is not known any more)."""
        if self._module is None:
            self._load()
        refuse: Callable[..., Any] | None = getattr(self._module, "refuse", None)
        if refuse is not None and request is not None:
            return refuse(request, context, code, detail)
        response = empty_response(self.api.key)
        if not hasattr(response, "error_code"):
            return Drop(detail)
        response.error_code = int(code)
        if hasattr(response, "error_message"):
            response.error_message = detail
        return response

    def _load(self) -> None:
        self._decode = request_codec(self.key)[0]
        self._encode = response_codec(self.key)[1]
        self._module = importlib.import_module(f"moldau.server.handlers.{self.api.module}")
        self._handle = self._module.handle


def empty_response(key: ApiKey) -> Any:
    """A response of the API with every field at its default."""
    spec = API_SPECS[key]
    module = importlib.import_module(f"moldau.wire.messages.{spec.module}")
    return getattr(module, f"{spec.name}Response")()


class Router:
    """Routes by API key."""

    def __init__(self, apis: tuple[Api, ...] = APIS) -> None:
        self.routes: list[Route | None] = [None] * API_KEYS_MAX
        for api in apis:
            self.routes[int(api.key)] = Route(api)

    def find(self, key: i64) -> Route | None:
        if key < 0 or key >= API_KEYS_MAX:
            return None
        return self.routes[key]

    def all(self) -> list[Route]:
        return [route for route in self.routes if route is not None]
