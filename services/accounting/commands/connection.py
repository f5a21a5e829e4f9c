"""The operator's connection to the records."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import psycopg

from strata.access.ssh import forwarded_port
from strata.errors import UserError
from strata.roles import port
from strata.site.context import SiteContext
from strata.site.host_list import address_of
from strata_services.accounting.service import DATABASE

Connection = psycopg.Connection[Any]
LOOPBACK = "127.0.0.1"


@contextlib.contextmanager
def connect(context: SiteContext) -> Iterator[Connection]:
    """A connection as the database's owner, through SSH to its host: PostgreSQL itself is closed to the outside.

    Raises:
        UserError: the host or the database does not respond, or has no records yet.
    """
    name = context.site.name
    address = address_of("postgresql", context.site, context.cloud_outputs)
    if address is None:
        raise UserError(f"site {name}: no deployed host has the role postgresql", fix=f"strata up {name}")
    try:
        with (
            forwarded_port(context, address, LOOPBACK, port("postgresql")) as local,
            psycopg.connect(
                host=address,  # the name that the certificate is checked for
                hostaddr=LOOPBACK,
                port=local,
                dbname=DATABASE.name,
                user=DATABASE.name,
                password=context.secrets.get(DATABASE.secret),
                sslmode="verify-full",
                sslrootcert=str(context.paths.ca_file),
                connect_timeout=10,
                application_name="strata accounting",
                autocommit=True,
            ) as connection,
        ):
            yield connection
    except psycopg.errors.UndefinedFunction:
        raise UserError(
            f"site {name}: the database {DATABASE.name} has no records yet", fix=f"strata up {name} --layer platform"
        ) from None
    except psycopg.OperationalError as error:
        raise UserError(
            f"PostgreSQL {DATABASE.name} on {address}: {str(error).strip()}", fix=f"strata status {name}"
        ) from None
