"""Settings, read from environment variables with the service's prefix."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, HttpUrl, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

Port = Annotated[int, Field(ge=1, le=65535)]
SHORTEST_KEY = 32
"""Characters of a text that keys are derived from."""


class CommonSettings(BaseSettings):
    """What all commands need. A service's own classes set `env_prefix`, for instance `ML_HUB_`."""

    model_config = SettingsConfigDict(extra="ignore", frozen=True)

    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Least level logged.")

    @classmethod
    def service(cls) -> str:
        """Name of the service, by the prefix: `ml-hub`."""
        return cls.model_config.get("env_prefix", "").strip("_").lower().replace("_", "-")

    @classmethod
    def variable(cls, field: str) -> str:
        """Name of a field's environment variable."""
        return f"{cls.model_config.get('env_prefix', '')}{field}".upper()

    @classmethod
    def messages(cls, error: ValidationError) -> list[str]:
        """What is wrong, one line for each variable."""
        return [
            f"{cls.variable('.'.join(map(str, problem['loc']))) if problem['loc'] else 'settings'}: "
            f"{problem['msg'].removeprefix('Value error, ')}"
            for problem in error.errors(include_input=False)
        ]

    def check_files(self, *fields: str) -> None:
        """Checks that the files that are set exist.

        Raises:
            ValueError: one does not; names its variable.
        """
        for field in fields:
            file: Path | None = getattr(self, field)
            if file is not None and not file.is_file():
                raise ValueError(f"{self.variable(field)}: there is no file {file}")


class DatabaseSettings(CommonSettings):
    """The service's PostgreSQL database."""

    database_host: str = Field(description="Name of the PostgreSQL server, as its certificate has it.")
    database_port: Port = Field(default=5432, description="TCP port of PostgreSQL.")
    database_name: str = Field(description="Name of the database.")
    database_user: str = Field(description="Role that owns the tables.")
    database_password: SecretStr | None = Field(default=None, description="Password of the role.")
    database_password_file: Path | None = Field(
        default=None, description="File with the password; read at each new connection, so it may change."
    )
    database_ca_file: Path | None = Field(default=None, description="PEM file of the CA that signed the server.")
    database_tls: Literal["verify-full", "disable"] = Field(
        default="verify-full", description="`disable` is for a database on loopback only."
    )
    database_pool_size: Annotated[int, Field(ge=1, le=100)] = Field(
        default=5, description="Connections kept open per process."
    )
    database_timeout_seconds: Annotated[float, Field(gt=0, le=60)] = Field(
        default=5, description="Limit for a connection, a free place in the pool and a statement."
    )

    @model_validator(mode="after")
    def _check_database(self) -> Self:
        if (self.database_password is None) == (self.database_password_file is None):
            one, other = self.variable("database_password"), self.variable("database_password_file")
            raise ValueError(f"set either {one} or {other}")
        if self.database_tls == "verify-full" and self.database_ca_file is None:
            tls = self.variable("database_tls")
            raise ValueError(f"{self.variable('database_ca_file')} is needed to verify the server ({tls}=verify-full)")
        self.check_files("database_password_file", "database_ca_file")
        return self

    def read_database_password(self) -> str:
        """The password as it is now."""
        if self.database_password_file is not None:
            return self.database_password_file.read_text().rstrip("\r\n")
        assert self.database_password is not None
        return self.database_password.get_secret_value()


class IssuerSettings(CommonSettings):
    """The issuer of the tokens that the service accepts."""

    issuer: HttpUrl = Field(description="Issuer of the tokens, exactly as their `iss` claim has it.")
    audience: str = Field(description="What the `aud` claim of a token must hold.")
    jwks_url: HttpUrl | None = Field(
        default=None, description="Where the issuer's keys are; unset: those in its discovery document."
    )
    issuer_ca_file: Path | None = Field(
        default=None, description="PEM file of the CA that signed the issuer's server; unset: the system's."
    )
    token_algorithms: Annotated[tuple[Literal["RS256", "RS512", "PS256", "ES256", "ES384", "EdDSA"], ...], NoDecode] = (
        Field(default=("RS256", "ES256"), description="Signatures that are accepted, separated by commas.")
    )
    token_leeway_seconds: Annotated[int, Field(ge=0, le=300)] = Field(
        default=30, description="How far clocks may differ."
    )
    keys_lifetime_seconds: Annotated[int, Field(ge=1)] = Field(
        default=300, description="How long fetched keys are used before they are fetched again."
    )
    keys_refresh_seconds: Annotated[float, Field(ge=0)] = Field(
        default=10, description="Least time between two fetches; tokens with unknown key ids cannot cause more."
    )

    @model_validator(mode="before")
    @classmethod
    def _split_algorithms(cls, values: dict[str, object]) -> dict[str, object]:
        if isinstance(text := values.get("token_algorithms"), str):
            values["token_algorithms"] = tuple(part.strip() for part in text.split(",") if part.strip())
        return values

    @model_validator(mode="after")
    def _check_issuer(self) -> Self:
        self.check_files("issuer_ca_file")
        if not self.token_algorithms:
            raise ValueError(f"{self.variable('token_algorithms')} names no algorithm")
        return self

    @property
    def issuer_claim(self) -> str:
        """The issuer without the slash that URL types add."""
        return str(self.issuer).rstrip("/")


class LoginSettings(IssuerSettings):
    """The client of the issuer with which a service logs browsers in."""

    authorize_url: HttpUrl = Field(description="The issuer's authorization endpoint, for browsers.")
    token_url: HttpUrl = Field(description="The issuer's token endpoint, as the service reaches it.")
    client_id: str = Field(description="Client of the issuer for logins by browser.")
    client_secret_file: Path = Field(description="File with the client's secret; read at each login.")
    session_key_file: Path = Field(description="File with the text that keys of sessions are derived from.")
    login_scope: str = Field(default="openid profile groups", description="Scope of logins.")

    @model_validator(mode="after")
    def _check_login(self) -> Self:
        self.check_files("client_secret_file", "session_key_file")
        if len(self.read_session_key()) < SHORTEST_KEY:
            raise ValueError(f"{self.variable('session_key_file')}: has less than {SHORTEST_KEY} characters")
        return self

    def read_client_secret(self) -> str:
        """The secret as it is now."""
        return self.client_secret_file.read_text().rstrip("\r\n")

    def read_session_key(self) -> str:
        """The text, the same in all processes of the service."""
        return self.session_key_file.read_text().rstrip("\r\n")


class WebSettings(LoginSettings):
    """Pages for browsers, behind a login."""

    web_url: HttpUrl = Field(description="Where browsers reach the pages, without a path: https://pods.example.org.")
    logout_url: HttpUrl | None = Field(
        default=None, description="The issuer's end of a session, for browsers; unset: a logout ends the one here only."
    )
    front_page_url: HttpUrl | None = Field(default=None, description="Front page of the site; unset: no link to it.")

    @property
    def web_origin(self) -> str:
        """Scheme, name and port, as browsers send it."""
        return str(self.web_url).rstrip("/")


class BindSettings(CommonSettings):
    """Where a server listens."""

    bind_address: str = Field(default="127.0.0.1", description="Address to listen on.")
    bind_port: Port = Field(default=8080, description="TCP port of the API.")


class HttpSettings(IssuerSettings, BindSettings):
    """What `serve` needs of a service without a database."""

    metrics_port: Port | None = Field(
        default=9464, description="TCP port of /metrics, apart from the API so that no proxy publishes it."
    )
    trusted_proxies: Annotated[int, Field(ge=0, le=5)] = Field(
        default=0,
        description="Proxies in front, each of which appends the client's address to X-Forwarded-For: 1 behind the "
        "site's ingress controller.",
    )
    rate_limit: str = Field(
        default="3000/minute", description="Requests of one caller to one route in one process; beyond them, 429."
    )

    @field_validator("rate_limit")
    @classmethod
    def _check_rate_limit(cls, value: str) -> str:
        from limits import parse  # noqa: PLC0415  # services that read tokens only have no limits

        try:
            parse(value)
        except ValueError:
            raise ValueError(f"{value!r} is not a limit such as 3000/minute") from None
        return value


class ServeSettings(DatabaseSettings, HttpSettings):
    """All that `serve` needs of a service with a database."""
