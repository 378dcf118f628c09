"""DescribeAcls: there is no authoriser, so there are no rules to tell. Tools that copy them (MirrorMaker) know this
answer and go on; without any they complain at every interval."""

from __future__ import annotations

from moldau.model.errors import ErrorCode
from moldau.server.context import RequestContext
from moldau.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def handle(request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
    )
