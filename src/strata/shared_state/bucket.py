"""The few S3 requests that shared state needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, FlexibleChecksumError, NoCredentialsError, ProfileNotFound
from botocore.loaders import create_loader
from botocore.session import Session

from strata.errors import UserError
from strata.models.state import S3Location

REFUSED = {"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "403", "Forbidden"}
CONDITION_FAILED = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}
MISSING = {"NoSuchKey", "404", "NotFound"}


class Conflict(Exception):
    """The condition of a write does not hold: another writer was first."""


@cache
def _loader() -> Any:
    """Returns what reads botocore's description of S3: 1 MB of JSON, parsed once."""
    return create_loader()


def damaged(url: str, why: str) -> UserError:
    """Returns the error of an object that is not what was stored."""
    return UserError(
        f"shared state: {url} is damaged: {why}",
        fix="`strata state reencrypt` on a host whose copy is of this snapshot (`strata state show`) saves it again; "
        "or restore an earlier version of the object",
    )


@dataclass(frozen=True)
class Stored:
    """An object.

    Args:
        body: its content.
        etag: for `Bucket.put(replacing=…)`.
        age: seconds since it was written, by the server's clock alone.
        metadata: its user metadata.
    """

    body: bytes
    etag: str
    age: float
    metadata: Mapping[str, str] = field(default_factory=dict)


class Bucket:
    """The objects of one site.

    Args:
        location: from the site file.
        site: the site's name.
    """

    def __init__(self, location: S3Location, site: str) -> None:
        self._location = location
        self._prefix = f"{location.prefix}{site}/"
        self.url = self.url_of("")
        self._client = self._connect()

    def _connect(self) -> Any:

        config = Config(
            s3={"addressing_style": "path" if self._location.endpoint else "auto"},
            connect_timeout=10,
            read_timeout=60,
            retries={"mode": "standard", "total_max_attempts": 3},
        )
        session = Session(profile=self._location.profile)
        session.register_component("data_loader", _loader())
        try:
            return session.create_client(
                "s3", region_name=self._location.region, endpoint_url=self._location.endpoint, config=config
            )
        except ProfileNotFound as error:
            raise UserError(
                f"shared state: there is no AWS profile {self._location.profile}",
                fix="add it to ~/.aws/credentials, or correct state.s3.profile in site.yaml",
            ) from error

    def url_of(self, name: str) -> str:
        """Returns the URL of an object, for messages."""
        place = self._location
        return f"s3://{place.bucket}/{self._prefix}{name}" + (f" at {place.endpoint}" if place.endpoint else "")

    def get(self, name: str) -> Stored | None:
        """Returns an object, None where there is none.

        Raises:
            UserError: the server does not respond or refuses, or the object does not match its checksum.
        """
        with self._errors():
            try:
                response = self._client.get_object(Bucket=self._location.bucket, Key=self._prefix + name)
            except self._client.exceptions.NoSuchKey:
                return None
            now = parsedate_to_datetime(response["ResponseMetadata"]["HTTPHeaders"]["date"])
            age = (now - response["LastModified"]).total_seconds()
            try:
                body = response["Body"].read()
            except FlexibleChecksumError as error:
                raise damaged(self.url_of(name), str(error)) from error
            return Stored(body, response["ETag"], max(0.0, age), response.get("Metadata", {}))
        return None

    def put(
        self, name: str, body: bytes, *, replacing: str | None = None, metadata: Mapping[str, str] | None = None
    ) -> str:
        """Writes an object that is new, or replaces the version with the ETag `replacing`; returns the new ETag.

        Raises:
            Conflict: there is one already, or it is another version.
            UserError: the server does not respond or refuses.
        """
        condition = {"IfNoneMatch": "*"} if replacing is None else {"IfMatch": replacing}
        with self._errors():
            done = self._client.put_object(
                Bucket=self._location.bucket,
                Key=self._prefix + name,
                Body=body,
                Metadata=dict(metadata or {}),
                **condition,
            )
            return str(done["ETag"])
        raise AssertionError  # `_errors` raises

    def metadata(self, name: str) -> Mapping[str, str]:
        """Returns the user metadata of an object that exists."""
        with self._errors():
            response = self._client.head_object(Bucket=self._location.bucket, Key=self._prefix + name)
            return dict(response["Metadata"])
        return {}

    def names(self, start: str = "") -> list[str]:
        """Returns the names of the objects that start so, sorted."""
        with self._errors():
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._location.bucket, Prefix=self._prefix + start
            )
            keys = [entry["Key"].removeprefix(self._prefix) for page in pages for entry in page.get("Contents", ())]
            return sorted(keys)
        return []

    def delete(self, name: str) -> None:
        """Deletes an object if it exists."""
        with self._errors():
            self._client.delete_object(Bucket=self._location.bucket, Key=self._prefix + name)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except ClientError as error:
            code = error.response["Error"].get("Code", "")
            if code in CONDITION_FAILED:
                raise Conflict from error
            if code == "NoSuchBucket":
                raise UserError(
                    f"shared state: bucket {self._location.bucket} does not exist",
                    fix="create it, with versioning if the server has it, or correct state.s3.bucket in site.yaml",
                ) from error
            if code in REFUSED:
                raise UserError(
                    f"shared state: {self.url} refuses access ({code})",
                    fix="set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, to a key that may list, "
                    "read, write and delete there",
                ) from error
            raise UserError(f"shared state: {self.url}: {error}", fix="repeat the command once it works") from error
        except NoCredentialsError as error:
            raise UserError(
                "shared state: no S3 credentials",
                fix="set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            ) from error
        except BotoCoreError as error:
            raise UserError(
                f"shared state: {self.url} is not reachable: {error}",
                fix="check state.s3 in site.yaml and the network; what was not saved stays in the state directory",
            ) from error
