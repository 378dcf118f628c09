"""DeleteAcls: refused filter by filter, as there is no authoriser that would have rules."""

from __future__ import annotations

from moldau.model.errors import ErrorCode
from moldau.server.context import RequestContext
from moldau.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


def handle(request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    return refuse(request, context, ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


def refuse(
    request: DeleteAclsRequest | None, context: RequestContext, code: ErrorCode, detail: str
) -> DeleteAclsResponse:
    filters = () if request is None else request.filters
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(error_code=code, error_message=detail) for _ in filters]
    )
