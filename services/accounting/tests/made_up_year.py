"""A year of a made-up site with 100 users, the same for the same seed; times are multiples of 5 minutes."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

SLOT = timedelta(minutes=5)
SLOTS_PER_HOUR = 12
YEAR_START = datetime(2025, 1, 1, tzinfo=UTC)
YEAR_END = datetime(2026, 1, 1, tzinfo=UTC)
MODEL = "research/keywords"
GIB = 2**30
TENANTS = ("astro", "bio", "chem", "hep", "meteo")
HOURS = 24 * 365


def at(slot: int) -> datetime:
    """The time of a slot; negative ones are before the year."""
    return YEAR_START + slot * SLOT


@dataclass(frozen=True)
class Held:
    """Resources held from one slot to another; without an end they still are."""

    uid: str
    tenant: str | None
    username: str | None
    kind: str
    cpus: float
    memory_bytes: int
    cards: int
    first: int
    last: int | None
    used: tuple[float, int] | None = None
    """CPU seconds and highest memory in bytes of a batch job; None where the batch system does not say."""


@dataclass(frozen=True)
class Used:
    """Usage of a pod in one hour of the year."""

    pod: Held
    hour: int
    cpu_seconds: float
    memory_mean: float
    memory_peak: float
    card_busy_seconds: float | None


@dataclass
class Year:
    """All records."""

    pods: list[Held] = field(default_factory=list)
    instances: list[Held] = field(default_factory=list)
    nodes: list[Held] = field(default_factory=list)
    jobs: list[Held] = field(default_factory=list)
    usage: list[Used] = field(default_factory=list)
    energy: list[tuple[str, int, float]] = field(default_factory=list)


def make_year(seed: int, users: int = 100, days: int = 365) -> Year:
    """Notebooks on working days, batch pods with jobs at night, services, projects' instances, nodes that grow.

    Args:
        seed: of the random numbers.
        users: spread over the tenants.
        days: with work, from the first of January on.
    """
    made = Year()
    dice = random.Random(seed)  # noqa: S311  # data, no secrets

    def new(**fields: Any) -> Held:
        return Held(str(uuid.UUID(int=dice.getrandbits(128), version=4)), **fields)

    end = days * 24 * SLOTS_PER_HOUR
    for number in range(12):
        first = 0 if number < 8 else dice.randrange(end)
        made.nodes.append(
            new(tenant=f"node-{number}", username=None, kind="", cpus=64.0, memory_bytes=512 * GIB, cards=number % 4,
                first=first, last=None)
        )  # fmt: skip
    for number in range(30):
        first = dice.randrange(-2000, end)
        last = None if number % 3 == 0 else first + dice.randrange(1, 50_000)
        made.instances.append(
            new(tenant=dice.choice([*TENANTS, "other"]), username=None, kind="", cpus=float(dice.choice([2, 4, 8])),
                memory_bytes=dice.choice([4, 8, 16]) * GIB, cards=dice.choice([0, 0, 1]), first=first, last=last)
        )  # fmt: skip
    for number in range(10):
        made.pods.append(
            new(tenant=None, username=None, kind="pod", cpus=0.1 * number, memory_bytes=GIB // 8, cards=0,
                first=-number, last=None)
        )  # fmt: skip
    for day in range(days):
        midnight = day * 24 * SLOTS_PER_HOUR
        for user in range(users):
            tenant = TENANTS[user % len(TENANTS)]
            name = f"user-{user}"
            if day % 7 < 5 and dice.random() < 0.6:
                first = midnight + dice.randrange(7 * SLOTS_PER_HOUR, 18 * SLOTS_PER_HOUR)
                length = dice.randrange(1, 9 * SLOTS_PER_HOUR)
                made.pods.append(
                    new(tenant=tenant, username=name, kind="notebook", cpus=float(dice.choice([1, 2, 4, 8])),
                        memory_bytes=dice.choice([4, 8, 16, 32]) * GIB, cards=dice.choice([0, 0, 1]),
                        first=first, last=None if dice.random() < 0.0005 else first + length)
                )  # fmt: skip
            if dice.random() < 0.7:
                first = midnight + dice.randrange(-2 * SLOTS_PER_HOUR, 24 * SLOTS_PER_HOUR)
                last = first + dice.randrange(0, 3 * SLOTS_PER_HOUR)
                held = new(tenant=tenant, username=None, kind="batch", cpus=dice.choice([1.0, 2.0, 16.0]),
                           memory_bytes=dice.choice([2, 8]) * GIB, cards=dice.choice([0, 1, 2]),
                           first=first, last=last)  # fmt: skip
                made.pods.append(held)
                used = (held.cpus * (last - first) * SLOT.total_seconds() * dice.random(),
                        round(held.memory_bytes * dice.random()))  # fmt: skip
                made.jobs.append(Held(f"ap#{len(made.jobs)}", tenant, name, "batch", held.cpus, held.memory_bytes,
                                      held.cards, first, last, used if dice.random() < 0.95 else None))  # fmt: skip
    for pod in made.pods:
        if pod.tenant is not None and dice.random() < 0.9:
            _use(made, pod, dice, end)
    for hour in range(0, min(HOURS, days * 24), 3):
        made.energy.append((f"GPU-{hour % 5}", hour, 100_000.0 + dice.random() * 900_000))
    return made


def _use(made: Year, pod: Held, dice: random.Random, end: int) -> None:
    last = min(pod.last if pod.last is not None else pod.first + 24 * SLOTS_PER_HOUR, end)
    for hour in range(max(0, pod.first) // SLOTS_PER_HOUR, -(-last // SLOTS_PER_HOUR)):
        slots = min(last, (hour + 1) * SLOTS_PER_HOUR) - max(pod.first, hour * SLOTS_PER_HOUR)
        if slots <= 0:
            continue
        memory = pod.memory_bytes * dice.random()
        seconds = slots * SLOT.total_seconds()
        busy = pod.cards * seconds * dice.random() if pod.cards else None
        cpu = pod.cpus * seconds * dice.random() * 0.7
        made.usage.append(Used(pod, hour, cpu, memory * 0.8, memory, busy))


def load(connection: psycopg.Connection[Any], year: Year) -> None:
    """Writes the year to a database with the schema."""

    def end(held: Held) -> datetime | None:
        return None if held.last is None else at(held.last)

    def copy(target: str, rows: list[tuple[Any, ...]]) -> None:
        with connection.cursor() as cursor, cursor.copy(f"COPY {target} FROM STDIN") as stream:
            for row in rows:
                stream.write_row(row)

    with connection.transaction():
        copy(
            "pod (uid, tenant, username, kind, namespace, name, node, cpus, memory_bytes, cards, starts, ends)",
            [
                (p.uid, p.tenant, p.username, p.kind, p.tenant or "kube-system", f"p{n}", "node-1", p.cpus,
                 p.memory_bytes, p.cards, at(p.first), end(p))
                for n, p in enumerate(year.pods)
            ],
        )  # fmt: skip
        copy(
            "job (global_job_id, tenant, username, cpus, memory_bytes, cards, submitted, starts, ends, cpu_seconds, "
            "memory_bytes_peak)",
            [
                (j.uid, j.tenant, j.username, j.cpus, j.memory_bytes, j.cards, at(j.first - 1), at(j.first), end(j),
                 *(j.used or (None, None)))
                for j in year.jobs
            ],
        )  # fmt: skip
        copy(
            "instance (instance_id, project, name, flavor, cpus, memory_bytes, cards, starts, ends)",
            [
                (i.uid, i.tenant, "vm", "m1", int(i.cpus), i.memory_bytes, i.cards, at(i.first), end(i))
                for i in year.instances
            ],
        )
        copy(
            "node (name, cpus, memory_bytes, cards, starts, ends)",
            [(n.tenant, n.cpus, n.memory_bytes, n.cards, at(n.first), end(n)) for n in year.nodes],
        )
        copy(
            "pod_usage (uid, hour, cpu_seconds, memory_bytes_mean, memory_bytes_peak, card_busy_seconds)",
            [
                (
                    u.pod.uid,
                    at(u.hour * SLOTS_PER_HOUR),
                    u.cpu_seconds,
                    u.memory_mean,
                    u.memory_peak,
                    u.card_busy_seconds,
                )
                for u in year.usage
            ],
        )
        copy(
            "card_energy (card, hour, node, joules)",
            [(card, at(hour * SLOTS_PER_HOUR), "node-1", joules) for card, hour, joules in year.energy],
        )
    connection.execute("ANALYZE")


def load_models(connection: psycopg.Connection[Any]) -> None:
    """Writes that two tenants asked MODEL at noon of each day: 2 requests, 30 tokens in, 10 out."""
    connection.execute(
        "INSERT INTO model_usage (hour, model, tenant, requests, tokens_in, tokens_out) "
        "SELECT noon, %s, tenant, 2, 30, 10 FROM unnest(ARRAY['bio', 'hep']) AS tenant, "
        "generate_series(%s::timestamptz, %s, interval '24 hours') AS noon",
        (MODEL, YEAR_START + timedelta(hours=12), YEAR_END),
    )
