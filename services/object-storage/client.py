"""Requests to the site's S3 endpoint as clients outside of the cluster send them: for checks and tests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from strata.catalogue.needs.bucket import ACCESS_KEY, SECRET_KEY, S3Endpoint

if TYPE_CHECKING:
    import requests

SECONDS = 120


def request(
    http: requests.Session,
    endpoint: S3Endpoint,
    key: Mapping[str, str] | None,
    method: str,
    path: str,
    data: bytes = b"",
) -> requests.Response:
    """The response to a signed request.

    Args:
        http: finds the site's names.
        endpoint: of the site.
        key: of a bucket, by the names of the variables that S3 clients read; None: not signed.
        method: of HTTP.
        path: bucket, slash, and the object's key or nothing.
        data: body.
    """
    url = f"{endpoint.url}/{path}"
    signed = AWSRequest(method, url, {"x-amz-content-sha256": hashlib.sha256(data).hexdigest()}, data)
    if key is not None:
        S3SigV4Auth(Credentials(key[ACCESS_KEY], key[SECRET_KEY]), "s3", endpoint.region).add_auth(signed)
    return http.request(method, url, data=data, headers=dict(signed.headers.items()), timeout=SECONDS)
