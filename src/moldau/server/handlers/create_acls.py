"""CreateAcls: refused rule by rule, as there is no authoriser that would obey them."""

from __future__ import annotations

from moldau.model.errors import ErrorCode
from moldau.server.context import RequestContext
from moldau.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


def handle(request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    return refuse(request, context, ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


def refuse(
    request: CreateAclsRequest | None, context: RequestContext, code: ErrorCode, detail: str
) -> CreateAclsResponse:
    rules = () if request is None else request.creations
    return CreateAclsResponse(results=[AclCreationResult(error_code=code, error_message=detail) for _ in rules])
