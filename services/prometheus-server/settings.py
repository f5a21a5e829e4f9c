"""What site.yaml sets of Prometheus."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, StrictBool, model_validator
from pydantic_core import PydanticCustomError

from strata.models.base import Model, Unit
from strata.models.types import Count, DnsLabel, EmailAddress, HostPort, HttpsUrl, SiteFile, Size


class Email(Model):
    """E-mail to the operators, through a mail server of theirs."""

    to: Annotated[list[EmailAddress], Field(min_length=1, description="Addresses that receive the alerts.")]
    sender: Annotated[EmailAddress, Field(description="Address that the messages come from.")]
    smarthost: Annotated[
        HostPort,
        Field(description="HOST:PORT of the mail server that relays the messages, often mail.example.org:587."),
    ]
    username: Annotated[
        str | None,
        Field(
            min_length=1,
            description="At the mail server; its password is the secret alertmanager_smtp_password. Default: no login.",
        ),
    ] = None
    starttls: Annotated[StrictBool, Field(description="Whether the mail server must offer STARTTLS.")] = True


class Webhook(Model):
    """A POST request with the alerts as JSON."""

    url: Annotated[HttpsUrl, Field(description="Where alerts are posted.")]
    bearer_token: Annotated[
        StrictBool, Field(description="Whether requests carry the secret alertmanager_webhook_token as bearer token.")
    ] = False


class Alertmanager(Model):
    """Where alerts are sent: by e-mail, to a webhook, or both."""

    email: Annotated[Email | None, Field(description="E-mail. Default: none.")] = None
    webhook: Annotated[Webhook | None, Field(description="Webhook. Default: none.")] = None
    ca_file: Annotated[
        SiteFile | None,
        Field(description="PEM file of the CA of the receivers' certificates. Default: the public CAs."),
    ] = None
    repeat_interval: Annotated[
        Count, Unit("hours"), Field(description="Time after which an alert that still fires is sent again.")
    ] = 4

    @model_validator(mode="after")
    def _someone_receives(self) -> Self:
        if self.email is None and self.webhook is None:
            fix = "email: {to: [ops@example.org], sender: strata@example.org, smarthost: 'mail.example.org:587'}"
            raise PydanticCustomError(
                "no_receiver", "sends alerts to no one: give email, webhook or both", {"key": "email", "fix": fix}
            )
        return self


class PrometheusServer(Model):
    """Prometheus with the metrics of hosts, nodes, pods, accelerators and services, recording rules and alerts."""

    retention: Annotated[Count, Unit("days"), Field(description="Number of days to keep samples.")] = 7
    scrape_interval: Annotated[Count, Unit("seconds"), Field(description="Time between two samples.")] = 30
    storage: Annotated[
        Size, Field(description="Size of the volume for samples; the oldest are deleted when it fills up.")
    ] = Size.parse("10 GiB")
    alertmanager: Annotated[Alertmanager | None, Field(description="Where alerts are sent. Default: nowhere.")] = None
    storage_class: Annotated[
        DnsLabel | None,
        Field(
            description="Storage class of the volume, on a local or block device: Prometheus does not support NFS. "
            "Default: a directory of the node, which is lost with the pod."
        ),
    ] = None


SECTION = PrometheusServer
