"""Where a team keeps the state of its site."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from strata.models.base import Model

AgeRecipient = Annotated[
    str, StringConstraints(pattern=r"^(age1[02-9ac-hj-np-z]{58}|ssh-(ed25519|rsa) [A-Za-z0-9+/]+=*( .*)?)$")
]


class S3Location(Model):
    """A location in an S3 bucket; credentials come from the environment or the AWS profile."""

    bucket: Annotated[str, Field(description="Bucket; it must exist.", pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]
    endpoint: Annotated[
        str | None, Field(description="URL of the S3 server. Default: Amazon's.", pattern=r"^https?://[^\s/@]+/?$")
    ] = None
    region: Annotated[str, Field(description="Region of the bucket.", pattern=r"^[a-z0-9-]+$")] = "us-east-1"
    prefix: Annotated[
        str,
        Field(description="Start of the object names; the site's name follows it.", pattern=r"^([\w.-]+/)*$"),
    ] = "strata/"
    profile: Annotated[
        str | None, Field(description="Profile in ~/.aws/credentials. Default: AWS_PROFILE or AWS_ACCESS_KEY_ID.")
    ] = None


class StateOperator(Model):
    """A member of the team that operates the site."""

    name: Annotated[str, Field(description="Name of the operator.", min_length=1)]
    key: Annotated[
        AgeRecipient,
        Field(description="Public key for which the state is encrypted: age1… from age-keygen, or an SSH key."),
    ]


class SharedState(Model):
    """Encrypted state in S3, with a lock; without it, the state is a directory on the deployment host."""

    s3: Annotated[S3Location, Field(description="Where the state is stored.")]
    operators: Annotated[
        tuple[StateOperator, ...],
        Field(description="Operators who can decrypt the state. Default: anyone with STRATA_STATE_PASSPHRASE."),
    ] = ()
    wait_minutes: Annotated[
        int,
        Field(
            description="Maximum time that a command waits for another operator's command.", ge=0, le=1440, strict=True
        ),
    ] = 30
