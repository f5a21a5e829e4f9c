"""Where datasets come from: what a tenant's administrators may name, and what the site allows at each start."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import SplitResult, urlsplit

from strata_hub.configuration import InvalidConfigurationError

Allowed = Mapping[str, Any]
"""Of one tenant: `bucket` (the tenant's own, or None) and `s3` by name, each with `endpoint`, `region`, `buckets` and
`keys`, two entries of Secrets; `nfs` by name: `claim`, and `server` where it is to be probed."""
NOTHING: Allowed = {"bucket": None, "s3": {}, "nfs": {}}
FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
REGION = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
DEFAULT_REGION = "us-east-1"
LONGEST = 1000
ONLY_S3 = ("endpoint", "region")


def check(value: Mapping[str, Any], allowed: Allowed) -> None:
    """Accepts `source`, `endpoint` and `region` of a dataset, and the keys that depend on them.

    Args:
        value: of the dataset, as it came.
        allowed: for its tenant.

    Raises:
        InvalidConfigurationError: the source is wrong, or another's.
    """
    source = value.get("source")
    if not isinstance(source, str) or len(source) > LONGEST or not source.isprintable():
        fix = f"https://HOST/PATH, s3://BUCKET/PREFIX/ or nfs://NAME, at most {LONGEST} characters"
        raise InvalidConfigurationError("source", source, "is not a URL", fix)
    scheme = source.partition("://")[0]
    for key in ONLY_S3:
        if key in value and scheme != "s3":
            raise InvalidConfigurationError(key, value[key], "is for sources on S3 only", "no such key")
    if scheme == "s3":
        s3(value, allowed)
    elif scheme == "nfs":
        nfs(value, allowed)
    else:
        _url("source", source, "https://HOST/PATH")


def nfs(value: Mapping[str, Any], allowed: Allowed) -> Mapping[str, Any]:
    """`claim` and `server` of a folder.

    Raises:
        InvalidConfigurationError: the tenant may not name it, or the dataset has keys of downloads.
    """
    names = allowed["nfs"]
    folder = names.get(value["source"].removeprefix("nfs://"))
    if folder is None:
        known = ", ".join(f"nfs://{name}" for name in names) or "none; ask the operators (datasets.nfs in site.yaml)"
        raise InvalidConfigurationError("source", value["source"], "is not a folder of the tenant", f"one of {known}")
    if not value.get("read_only", True):
        raise InvalidConfigurationError("read_only", False, "folders on NFS are read-only", "true")
    if value.get("sha256") is not None:
        raise InvalidConfigurationError("sha256", value["sha256"], "a folder has none", "no such key")
    return dict(folder)


def s3(value: Mapping[str, Any], allowed: Allowed) -> dict[str, Any]:
    """`endpoint`, `region`, `bucket`, `key` (a prefix if it ends with / or is empty) and `keys` (None: no login).

    Raises:
        InvalidConfigurationError: the bucket is another's, or endpoint, region or key are wrong.
    """
    bucket, _, key = value["source"].removeprefix("s3://").partition("/")
    if not BUCKET.fullmatch(bucket):
        raise InvalidConfigurationError("source", value["source"], "has no bucket", "s3://BUCKET/PREFIX/")
    if {"", ".", ".."} & set(key.removesuffix("/").split("/")) and key:
        why = "has an empty part, . or .."
        raise InvalidConfigurationError("source", value["source"], why, "s3://BUCKET/KEY, or s3://BUCKET/PREFIX/")
    if (not key or key.endswith("/")) and value.get("sha256") is not None:
        raise InvalidConfigurationError("sha256", value["sha256"], "a prefix has none", "the source of one object")
    endpoint = _endpoint(value, allowed)
    if endpoint["buckets"] is not None and bucket not in endpoint["buckets"]:
        fix = f"a source in {' or '.join(f's3://{name}/' for name in endpoint['buckets'])}"
        raise InvalidConfigurationError("source", value["source"], f"bucket {bucket} is not the tenant's", fix)
    at = {name: endpoint[name] for name in ("endpoint", "region", "keys")}
    return {**at, "bucket": bucket, "key": key}


def _endpoint(value: Mapping[str, Any], allowed: Allowed) -> Mapping[str, Any]:
    endpoint, names = value.get("endpoint"), allowed["s3"]
    known = " or ".join([*names, "https://HOST"])
    public = isinstance(endpoint, str) and "://" in endpoint
    if "region" in value and not public:
        raise InvalidConfigurationError("region", value["region"], "is the site's", "no such key")
    if endpoint is None:
        if allowed["bucket"] is None:
            fix = f"{known}; without a login, for a public bucket"
            raise InvalidConfigurationError("endpoint", None, "the site has no object storage", fix)
        return dict(allowed["bucket"])
    if isinstance(endpoint, str) and endpoint in names:
        return dict(names[endpoint])
    if not public or len(endpoint) > LONGEST or not endpoint.isprintable():
        raise InvalidConfigurationError("endpoint", endpoint, "is not an endpoint of the tenant", known)
    url = _url("endpoint", endpoint, "https://HOST")
    if url.path.rstrip("/") or url.query:
        raise InvalidConfigurationError("endpoint", endpoint, "has more than a host", f"https://{url.netloc}")
    region = value.get("region", DEFAULT_REGION)
    if not isinstance(region, str) or not REGION.fullmatch(region):
        raise InvalidConfigurationError("region", region, "is not a region", f"for instance {DEFAULT_REGION}")
    return {"endpoint": endpoint.rstrip("/"), "region": region, "buckets": None, "keys": None}


def _url(key: str, value: str, example: str) -> SplitResult:
    """Of a public server: no login, no address of the pod's node or of metadata.

    Raises:
        InvalidConfigurationError: another scheme, no host, a login, a fragment, or such an address.
    """
    try:
        if not value.isascii() or " " in value:
            raise ValueError(value)
        url = urlsplit(value)
        host, _ = url.hostname, url.port
    except ValueError:
        url, host = SplitResult("", "", "", "", ""), None
    if url.scheme != "https" or not host:
        raise InvalidConfigurationError(key, value, "is not an HTTPS URL", example)
    if "@" in url.netloc:
        # not repeated in the message
        raise InvalidConfigurationError(key, "…", "has a user or a password", f"a {key} without a login")
    if url.fragment:
        raise InvalidConfigurationError(key, value, "has a fragment", f"without #{url.fragment}")
    if _local(host):
        raise InvalidConfigurationError(key, value, "is an address of the node", example)
    return url


def _local(host: str) -> bool:
    """Whether it is a link-local or loopback address, or a number that the resolver takes for one."""
    try:
        address = ip_address(host)
    except ValueError:
        # 2852039166, 0xa9fea9fe and 169.254.43518 are addresses too
        return re.fullmatch(r"0x[0-9a-f]*|[0-9]+", host.rstrip(".").rpartition(".")[2]) is not None
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_link_local or address.is_loopback or address.is_multicast or address.is_unspecified


def file_name(name: str, source: str) -> str:
    """Of the file: the last part of the URL's path, else the dataset's name."""
    path = source if source.startswith("s3://") else urlsplit(source).path
    last = path.rpartition("/")[2]
    return last if FILE.fullmatch(last) else name
