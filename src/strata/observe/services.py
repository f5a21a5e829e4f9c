"""Asks the services: those with a name of their own as their users do, other parts by a command in their pod."""

from __future__ import annotations

import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial

import requests

from strata.access.https import load_balancer_address, site_session
from strata.access.kubectl import Unanswered, kubectl
from strata.catalogue.published import PublishedService, published
from strata.catalogue.service import Question
from strata.catalogue.site_services import installed
from strata.observe.facts import NOT_UP, OBSERVE_SECONDS, READ_SECONDS, ServiceFacts
from strata.roles import port
from strata.site.context import SiteContext
from strata.site.secrets.pki import validity

CONNECT_SECONDS = OBSERVE_SECONDS - READ_SECONDS


def questions(context: SiteContext) -> dict[str, Question]:
    """What the services of the site declare, by the name that status shows."""
    return {
        f"{service.name}: {question.part}": question
        for service in installed(context.site)
        for question in service.questions
    }


def observe_services(context: SiteContext) -> ServiceFacts:
    """What does not respond; a site without a cluster has no services."""
    if context.site.cluster is None or not context.paths.kubeconfig.exists():
        return ServiceFacts(reason=NOT_UP)
    asked = {name: partial(_ask_part, context, question) for name, question in questions(context).items()}
    names = published(context.site)
    try:
        session, balancer = site_session(context), load_balancer_address(context)
    except LookupError:
        names = ()
    else:
        asked |= {service.health_url: partial(_ask_url, session, service) for service in names}
    with ThreadPoolExecutor(max_workers=len(asked) + 1) as pool:
        answers = {name: pool.submit(ask) for name, ask in asked.items()}
        ends = pool.submit(_certificate, balancer, names[0].host).result() if names else None
        return ServiceFacts(
            silent={name: why for name, answer in answers.items() if (why := answer.result())}, ends=ends
        )


def _ask_url(session: requests.Session, service: PublishedService) -> str:
    """Empty if the service answers, else what came."""
    try:
        status = session.get(service.health_url, timeout=(CONNECT_SECONDS, READ_SECONDS)).status_code
    except requests.exceptions.SSLError as error:
        return f"no TLS: {error}"
    except requests.exceptions.Timeout:
        return f"no answer within {READ_SECONDS:.0f} s"
    except requests.exceptions.RequestException:
        return "no connection"
    # a service without a path of its own for this may refuse who has no key
    return f"HTTP {status}" if status >= (400 if service.health_path else 500) else ""


def _ask_part(context: SiteContext, question: Question) -> str:
    where = ("--namespace", question.namespace, "--container", question.container)
    try:
        kubectl(context, "exec", question.pod, *where, "--", *question.command, seconds=OBSERVE_SECONDS)
    except Unanswered as error:
        return str(error).removeprefix("unreachable: ")
    return ""


def _certificate(address: str, name: str) -> datetime | None:
    """End of the certificate that is shown for a name; None where there is none."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((address, port("load_balancer", "https")), timeout=CONNECT_SECONDS) as plain,
            tls.wrap_socket(plain, server_hostname=name) as secured,
        ):
            shown = secured.getpeercert(binary_form=True)
    except OSError:
        return None
    return validity(ssl.DER_cert_to_PEM_cert(shown)).ends if shown else None
