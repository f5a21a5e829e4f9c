"""Authentication at the lab's servers: secrets that they accept, certificates that they present."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import socket
import ssl
import struct
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import requests
import yaml
from ansible.parsing.vault import AnsibleVaultError, VaultLib, VaultSecret
from cryptography import x509

from strata.access.https import named_session
from strata.access.kubectl import ask_program
from strata.access.openstack import connect
from strata.access.ssh import forwarded_port, host_addresses
from strata.catalogue.backup_items import SECRET_KEY as BACKUP_KEY
from strata.catalogue.issuer import Issuer
from strata.catalogue.needs import Bucket, Client
from strata.catalogue.needs.bucket import ACCESS_KEY, SECRET_KEY, S3Endpoint, secret_names
from strata.catalogue.needs.database import KINE_DATABASE
from strata.catalogue.published import published
from strata.catalogue.site_needs import databases
from strata.catalogue.site_services import batch_server, dask_server, issuer, needed, s3_endpoint
from strata.engine.rotation import PASSPHRASE, SSH_KEY
from strata.inventory.clients import OPERATOR, OPERATOR_SECRET, pull_users
from strata.inventory.port_numbers import DATASTORE, HTTPS, POSTGRESQL, REGISTRY, REGISTRY_PUSH
from strata.inventory.topology import database_secret
from strata.site.context import SiteContext
from strata.site.host_list import address_of
from strata.verify.tokens import request_token
from strata_lab.backup_store import store_address
from strata_lab.controller import container_name
from strata_lab.network.metadata import NOVA_PORT
from strata_lab.openstack_controller import METADATA_SECRET, SERVICES, controller_address
from strata_services.dask_gateway.needs import HUB_TOKEN
from strata_services.htcondor.needs import MONITOR, SCOPES, TOKEN_SECRET
from strata_services.htcondor.needs import NAMESPACE as POOL_NAMESPACE
from strata_services.htcondor.needs import SIGNING_KEY as POOL_KEY
from strata_services.htcondor.tokens import idtoken
from strata_services.jupyterhub.needs import HUB_SECRETS
from strata_services.jupyterhub.needs import NAMESPACE as HUB_NAMESPACE
from strata_services.jupyterhub.service import SERVICE as JUPYTERHUB
from strata_services.object_storage.client import request as s3_request

Attempt = Callable[[str], bool]
"""Authenticates with a value: whether it is accepted; raises if the server neither accepts nor refuses it."""
SSL_REQUEST = struct.pack("!ii", 8, 80877103)
"""PostgreSQL's message that asks for TLS."""
ONLY_THE_AGENT = (
    *("BatchMode=yes", "IdentityFile=none", "LogLevel=ERROR"),
    *("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null"),
)
PROXY_TOKEN = "jupyterhub_proxy_token"  # its name
ASK = """
import json, sys, urllib.error, urllib.request
given = json.load(sys.stdin)
body = b"none" if given["method"] == "POST" else None
request = urllib.request.Request(given["url"], body, {"Authorization": given["authorization"]}, method=given["method"])
try:
    status = urllib.request.urlopen(request, timeout=30).status
except urllib.error.HTTPError as error:
    status = error.code
json.dump({"status": status}, sys.stdout)
"""
"""Secrets come by standard input: arguments would be seen."""
PING = r"""
import json, os, pathlib, re, subprocess, sys, tempfile
given = json.load(sys.stdin)
with tempfile.TemporaryDirectory() as directory:
    token = pathlib.Path(directory, "token")
    token.touch(0o600)
    token.write_text(given["token"])
    none = "/nonexistent"
    environment = os.environ | {
        "_CONDOR_SEC_TOKEN_DIRECTORY": directory, "_CONDOR_SEC_TOKEN_SYSTEM_DIRECTORY": none,
        "_CONDOR_SEC_PASSWORD_DIRECTORY": none, "_CONDOR_SEC_TOKEN_POOL_SIGNING_KEY_FILE": none,
    }
    # asked for by its name, the collector would refuse the token first, and say only that it knows no such schedd
    ad = pathlib.Path("/condor/spool/tenants", given["tenant"], ".schedd_classad").read_text()
    address = re.search('^MyAddress = "(.+)"$', ad, re.MULTILINE)[1]
    command = ["condor_ping", "-address", address, "-type", "schedd", "READ"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
json.dump({"status": done.returncode, "said": done.stdout + done.stderr}, sys.stdout)
"""


def served_certificate(address: str, port: int, *, postgresql: bool = False) -> x509.Certificate:
    """What a TLS server shows, trusted or not.

    Args:
        address: of the server.
        port: TCP port.
        postgresql: whether TLS begins on request only, as PostgreSQL does it.
    """
    with socket.create_connection((address, port), timeout=30) as plain:
        if postgresql:
            plain.sendall(SSL_REQUEST)
            assert plain.recv(1) == b"S", "PostgreSQL refuses TLS"
        sorting = ssl.create_default_context()
        sorting.check_hostname, sorting.verify_mode = False, ssl.CERT_NONE
        with sorting.wrap_socket(plain) as secure:
            shown = secure.getpeercert(binary_form=True)
    assert shown is not None
    return x509.load_der_x509_certificate(shown)


def served_certificates(context: SiteContext) -> dict[str, int]:
    """Serial number of the certificate of each server of the site, by the certificate's name or the server's."""
    ports = {"ingress": HTTPS, "registry": REGISTRY, "postgresql": POSTGRESQL, "kine": DATASTORE}
    # the role of a host that may connect; this machine may to the others
    via = {"postgresql": "kube_node", "kine": "kube_control_plane"}
    serials = {}
    for role, port in ports.items():
        with reached(context, "load_balancer" if role == "ingress" else role, port, via.get(role)) as (address, own):
            serials[role] = served_certificate(address, own, postgresql=role == "postgresql").serial_number
    api = urlsplit(yaml.safe_load(context.paths.kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
    assert api.hostname is not None
    serials["kube-apiserver"] = served_certificate(api.hostname, api.port or HTTPS).serial_number
    if store := store_address(context.site):
        serials["backup store"] = served_certificate(store, HTTPS).serial_number
    return serials


@contextlib.contextmanager
def reached(context: SiteContext, role: str, port: int, via: str | None) -> Iterator[tuple[str, int]]:
    """Address and port where a role answers here, through a host with the role `via` where only these may connect."""
    address = address_of(role, context.site, context.cloud_outputs)
    assert address is not None
    if via is None:
        yield address, port
        return
    client = address_of(via, context.site, context.cloud_outputs)
    assert client is not None
    with forwarded_port(context, client, address, port) as own:
        yield "127.0.0.1", own


def attempts(context: SiteContext, http: requests.Session) -> dict[str, dict[str, Attempt]]:
    """Returns the attempts by name of the secret, as in `strata secrets list`, and by server.

    Args:
        context: the lab.
        http: finds its names and trusts its authority.
    """
    controller = controller_address(context.site)
    by_secret: dict[str, dict[str, Attempt]] = {
        SSH_KEY: {n: partial(_ssh, a) for n, a in {"controller": controller, **host_addresses(context)}.items()},
        PASSPHRASE: {"secret store": partial(_vault, context.paths.secrets_file)},
        METADATA_SECRET: {"nova": partial(_metadata, context, controller)},
        "openstack_messaging_password": {"RabbitMQ": partial(_rabbitmq, context)},
    }
    if own := issuer(context.site):
        by_secret[own.client_secret] = {"issuer": partial(_client, own, http)}
    for user in ("admin", *SERVICES.values()):
        by_secret[f"openstack_{user}_password"] = {"keystone": partial(_keystone, controller, user)}
    for user in ("keystone", *SERVICES.values()):
        by_secret[f"openstack_{user}_database_password"] = {"MariaDB": partial(_mariadb, context, user)}
    for name in databases(context.site):
        by_secret[database_secret(name)] = {"PostgreSQL": partial(_postgresql, context, name)}
    readers = ((secret, user, REGISTRY) for user, secret in pull_users(context.site).items())
    for secret, user, port in (*readers, (OPERATOR_SECRET, OPERATOR, REGISTRY_PUSH)):
        by_secret[secret] = {"registry": partial(_registry, context, user, port)}
    if address := store_address(context.site):
        by_secret[BACKUP_KEY] = {"backup store": partial(_backup_store, context, address)}
    return by_secret | _service_attempts(context, http)


def _service_attempts(context: SiteContext, http: requests.Session) -> dict[str, dict[str, Attempt]]:
    """Of the services that the site has."""
    site = context.site
    by_secret: dict[str, dict[str, Attempt]] = {}
    if own := issuer(site):
        for _, client in needed(site, Client):
            by_secret[client.secret] = {"issuer": partial(_code, own, http, client)}
    if storage := s3_endpoint(site):
        for name in (*(t.name for t in site.platform.tenants), *(b.name for _, b in needed(site, Bucket))):
            by_secret[secret_names(name)[1]] = {"object storage": partial(_bucket, http, storage, name)}
    if JUPYTERHUB.of(site) is not None:
        (hub,) = (service.url for service in published(site) if service.key == JUPYTERHUB.key)
        tokens = [secret.name for secret in HUB_SECRETS if secret.key.startswith("hub.services.")]
        dask = dask_server(site)
        by_secret |= {
            name: {"hub": partial(_hub, http, hub)} for name in [*tokens, *([HUB_TOKEN.name] if dask else [])]
        }
        by_secret[PROXY_TOKEN] = {"proxy": partial(_proxy, context)}
    if batch := batch_server(site):
        by_secret[TOKEN_SECRET.name] = {"issuer of HTCondor's tokens": partial(_pool_tokens, context, batch.tokens_url)}
        by_secret[POOL_KEY.name] = {"schedd": partial(_schedd, context)}
    return by_secret


def _code(own: Issuer, http: requests.Session, client: Client, secret: str) -> bool:
    """The issuer looks at the client's secret before it looks at the code, which is none."""
    data = {"grant_type": "authorization_code", "code": "none", "redirect_uri": "https://none.example/"}
    answer = http.post(own.public.token, data=data, auth=(client.name, secret), timeout=60)
    return _answered(answer, yes=400, no=401)


def _bucket(http: requests.Session, storage: S3Endpoint, name: str, secret: str) -> bool:
    return _answered(
        s3_request(http, storage, {ACCESS_KEY: name, SECRET_KEY: secret}, "GET", f"{name}/"), yes=200, no=403
    )


def _hub(http: requests.Session, hub: str, token: str) -> bool:
    headers = {"Authorization": f"token {token}"}
    return _answered(http.get(f"{hub}hub/api/user", headers=headers, timeout=60), yes=200, no=403)


def _proxy(context: SiteContext, token: str) -> bool:
    request = {"url": "http://proxy-api:8001/api/routes", "authorization": f"token {token}", "method": "GET"}
    status = _from_the_hub(context, request)
    return _said(status == 200, status == 403, str(status))


def _pool_tokens(context: SiteContext, url: str, secret: str) -> bool:
    """With a body that is none: no token is issued."""
    status = _from_the_hub(context, {"url": url, "authorization": f"Bearer {secret}", "method": "POST"})
    return _said(status == 400, status == 401, str(status))


def _from_the_hub(context: SiteContext, request: dict[str, str]) -> int:
    """Status of the answer to a request from the hub's pod, which such servers admit."""
    target = (f"--namespace={HUB_NAMESPACE.name}", "deployment/hub", "--container=hub")
    command = ("python3", "-c", ASK)
    return int(ask_program(context, *target, command=command, request=request, seconds=60)["status"])


def _schedd(context: SiteContext, key: str) -> bool:
    """Accepts a token that the key signs, as the pool's own are; without the key beside it."""
    domain = context.site.domain
    token = idtoken(key, f"{MONITOR}@{domain}", domain, SCOPES[MONITOR])
    target = (f"--namespace={POOL_NAMESPACE.name}", "statefulset/htcondor-access-point", "--container=condor")
    request = {"token": token, "tenant": context.site.platform.tenants[0].name}
    answer = ask_program(context, *target, command=("python3", "-c", PING), request=request, seconds=60)
    return _said(answer["status"] == 0, "failed" in answer["said"].lower(), answer["said"])


def _ssh(address: str, key: str) -> bool:
    # the agent holds the key, so that it is in no file
    with subprocess.Popen(["ssh-agent", "-D"], stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdout is not None
        path = agent.stdout.readline().split(";")[0].partition("=")[2]
        environment = {**os.environ, "SSH_AUTH_SOCK": path}
        try:
            subprocess.run(["ssh-add", "-q", "-"], input=key, env=environment, text=True, check=True)
            done = subprocess.run(
                ["ssh", "-F", "none", *(f"-o{option}" for option in ONLY_THE_AGENT), f"root@{address}", "true"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                env=environment,
                timeout=60,
                check=False,
            )
        finally:
            agent.terminate()
    return _said(done.returncode == 0, "Permission denied" in done.stderr, done.stderr)


def _vault(file: Path, passphrase: str) -> bool:
    try:
        VaultLib([("default", VaultSecret(passphrase.strip().encode()))]).decrypt(file.read_bytes())
    except AnsibleVaultError as error:
        return _said(False, "no vault secrets were found that could decrypt" in str(error), str(error))
    return True


def _metadata(context: SiteContext, controller: str, secret: str) -> bool:
    """nova is reported about an instance only by who signs its id."""
    assert context.cloud_outputs is not None
    instance = next(iter(context.cloud_outputs.instances.values()))
    with connect(context) as cloud:
        project = cloud.compute.get_server(instance.id).project_id
    headers = {
        "X-Forwarded-For": instance.address,
        "X-Instance-ID": instance.id,
        "X-Tenant-ID": project,
        "X-Instance-ID-Signature": hmac.new(secret.encode(), instance.id.encode(), hashlib.sha256).hexdigest(),
    }
    url = f"http://{controller}:{NOVA_PORT}/openstack/latest/meta_data.json"
    return _answered(requests.get(url, headers=headers, timeout=30), yes=200, no=403)


def _client(own: Issuer, http: requests.Session, secret: str) -> bool:
    return _answered(request_token(http, own, secret), yes=200, no=401)


def _keystone(controller: str, user: str, password: str) -> bool:
    who = {"name": user, "domain": {"name": "Default"}, "password": password}
    body = {"auth": {"identity": {"methods": ["password"], "password": {"user": who}}}}
    return _answered(requests.post(f"http://{controller}:5000/v3/auth/tokens", json=body, timeout=30), yes=201, no=401)


def _rabbitmq(context: SiteContext, password: str) -> bool:
    command = ["podman", "exec", "--interactive", container_name(context.site), "rabbitmqctl", "authenticate_user"]
    done = subprocess.run(
        [*command, "openstack"], input=f"{password}\n", capture_output=True, text=True, timeout=60, check=False
    )
    said = done.stdout + done.stderr
    return _said(done.returncode == 0, "Error: failed to authenticate user" in said, said)


def _mariadb(context: SiteContext, user: str, password: str) -> bool:
    # not by podman's --env NAME=VALUE, which anybody would see among its arguments
    command = ["podman", "exec", "--env", "MYSQL_PWD", container_name(context.site), "mariadb", "--no-defaults"]
    done = subprocess.run(
        [*command, "--protocol=tcp", "--host=127.0.0.1", f"--user={user}", "--execute=SELECT 1"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "MYSQL_PWD": password},
        timeout=60,
        check=False,
    )
    return _said(done.returncode == 0, "Access denied for user" in done.stderr, done.stderr)


def _postgresql(context: SiteContext, name: str, password: str) -> bool:
    via = "kine" if name == KINE_DATABASE else "kube_node"
    with reached(context, "postgresql", POSTGRESQL, via) as (host, port):
        try:
            psycopg.connect(
                host=host, port=port, dbname=name, user=name, password=password, sslmode="require", connect_timeout=30
            ).close()
        except psycopg.OperationalError as error:
            return _said(False, "password authentication failed" in str(error), str(error))
    return True


def _registry(context: SiteContext, user: str, port: int, password: str) -> bool:
    address = address_of("registry", context.site, context.cloud_outputs)
    with named_session(context.paths.ca_file, f"registry.{context.site.domain}") as session:
        answer = session.get(f"https://{address}:{port}/v2/", auth=(user, password), timeout=30)
    return _answered(answer, yes=200, no=401)


def _backup_store(context: SiteContext, address: str, key: str) -> bool:
    backup = context.site.hosts.backup
    assert backup is not None
    endpoint = S3Endpoint(f"https://{address}", backup.region)
    with named_session(context.paths.ca_file, None) as session:
        credentials = {ACCESS_KEY: backup.bucket, SECRET_KEY: key}
        answer = s3_request(session, endpoint, credentials, "GET", f"{backup.bucket}/")
    return _answered(answer, yes=200, no=403)


def _answered(answer: requests.Response, *, yes: int, no: int) -> bool:
    return _said(answer.status_code == yes, answer.status_code == no, f"{answer.status_code}: {answer.text}")


def _said(yes: bool, no: bool, text: str) -> bool:
    """Yes or no; anything else, for instance no answer, is neither."""
    assert yes or no, text[-600:]
    return yes
