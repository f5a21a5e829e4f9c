"""An issuer on loopback over TLS, as the API server and kubelogin ask it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from strata_bench.https_server import answer_json, https_server

KEY_ID = "contract"


@dataclass
class LoginIssuer:
    """An issuer whose outages a test decides on.

    Args:
        url: the `iss` claim.
        ca: PEM of the CA that signed its certificate.
        id_token: what every login is given.
        available: whether it answers.
    """

    url: str = ""
    ca: str = ""
    id_token: str = ""
    available: bool = False
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def answer(self, path: str) -> dict[str, Any] | None:
        """Body of the answer, None for none."""
        public: dict[str, Any] = ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        code = {"device_code": "code", "user_code": "ABCD", "verification_uri": f"{self.url}/code"}
        answers: dict[str, dict[str, Any]] = {
            "/.well-known/openid-configuration": {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/keys",
                "authorization_endpoint": f"{self.url}/authorize",
                "device_authorization_endpoint": f"{self.url}/device",
                "token_endpoint": f"{self.url}/token",
                "id_token_signing_alg_values_supported": ["ES256"],
            },
            "/keys": {"keys": [{**public, "kid": KEY_ID, "use": "sig", "alg": "ES256"}]},
            "/device": {**code, "expires_in": 60, "interval": 1},
            "/token": {"access_token": "none", "token_type": "Bearer", "id_token": self.id_token},
        }
        return answers.get(path) if self.available else None


@contextlib.contextmanager
def login_issuer(directory: Path) -> Iterator[LoginIssuer]:
    """A running issuer that is not available yet; its certificate is in the directory."""
    issuer = LoginIssuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = issuer.answer(self.path)
            answer_json(self, 503 if body is None else 200, body or {})

        do_POST = do_GET

        def log_message(self, format: str, *arguments: Any) -> None:
            """Logs nothing."""

    with https_server(Handler, directory) as server:
        issuer.ca, issuer.url = server.ca, f"https://127.0.0.1:{server.port}"
        yield issuer
