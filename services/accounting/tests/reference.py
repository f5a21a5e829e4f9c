"""The answers computed another way: by adding up the curve of what was held in each slot of 5 minutes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from datetime import date, datetime
from itertools import accumulate
from typing import NamedTuple

from .made_up_year import GIB, SLOT, SLOTS_PER_HOUR, YEAR_START, Held, Used, Year, at


class Amount(NamedTuple):
    """Hours of resources."""

    cpu: float
    memory: float
    card: float


class Reference:
    """Answers about [start, end), both multiples of 5 minutes.

    Args:
        year: the records.
        start: of the window.
        end: of the window.
    """

    def __init__(self, year: Year, start: datetime, end: datetime) -> None:
        self.year = year
        self.first, self.last = (start - YEAR_START) // SLOT, (end - YEAR_START) // SLOT
        self.months = [_month(slot) for slot in range(self.first, self.last)]

    def curve(self, held: Iterable[Held], weight: str | None) -> list[float]:
        """What all held together, by slot of the window; without a weight, how many there were."""
        steps = [0.0] * (len(self.months) + 1)
        for workload in held:
            begin = max(workload.first, self.first) - self.first
            end = (self.last if workload.last is None else min(workload.last, self.last)) - self.first
            if begin < end:
                value = float(getattr(workload, weight)) if weight else 1.0
                steps[begin] += value
                steps[end] -= value
        return list(accumulate(steps[:-1]))

    def allocation(self) -> dict[tuple[date, str, str | None], Amount]:
        """By month, level and holder."""
        amounts: dict[tuple[date, str, str | None], Amount] = {}
        groups: dict[tuple[str, str | None], list[Held]] = defaultdict(list)
        for pod in self.year.pods:
            groups["pod", pod.tenant].append(pod)
        for instance in self.year.instances:
            groups["instance", instance.tenant].append(instance)
        groups["node", None] = self.year.nodes
        for (level, holder), held in groups.items():
            by_month = {w: self._by_month(self.curve(held, w)) for w in ("cpus", "memory_bytes", "cards")}
            present = self._by_month(self.curve(held, None))
            for month, count in present.items():
                if count > 0:
                    amounts[month, level, holder] = Amount(
                        by_month["cpus"][month] / SLOTS_PER_HOUR,
                        by_month["memory_bytes"][month] / SLOTS_PER_HOUR / GIB,
                        by_month["cards"][month] / SLOTS_PER_HOUR,
                    )
        return amounts

    def _by_month(self, curve: list[float]) -> dict[date, float]:
        totals: dict[date, float] = defaultdict(float)
        for month, value in zip(self.months, curve, strict=True):
            totals[month] += value
        return totals

    def usage(self) -> Iterable[tuple[Used, float]]:
        """Rows of the window with the hours that their pod ran in them."""
        for used in self.year.usage:
            slot = used.hour * SLOTS_PER_HOUR
            if self.first <= slot < self.last:
                inside = [
                    s for s in range(slot, slot + SLOTS_PER_HOUR)
                    if used.pod.first <= s and (used.pod.last is None or s < used.pod.last)
                ]  # fmt: skip
                yield used, len(inside) / SLOTS_PER_HOUR

    def utilisation(self) -> dict[tuple[date, str | None], tuple[float, ...]]:
        """By month and tenant: measured and used CPU, memory and cards, in hours."""
        rows: dict[tuple[date, str | None], list[float]] = defaultdict(lambda: [0.0] * 6)
        for used, hours in self.usage():
            row = rows[_month(used.hour * SLOTS_PER_HOUR), used.pod.tenant]
            row[0] += hours * used.pod.cpus
            row[1] += used.cpu_seconds / 3600
            row[2] += hours * used.pod.memory_bytes / GIB
            row[3] += hours * used.memory_mean / GIB
            if used.card_busy_seconds is not None:
                row[4] += hours * used.pod.cards
                row[5] += used.card_busy_seconds / 3600
        return {key: tuple(row) for key, row in rows.items()}

    def idle_cards(self) -> list[float]:
        """Idle card hours of the pods with the most, in order."""
        idle_hours: dict[str, float] = defaultdict(float)
        for used, hours in self.usage():
            if used.pod.cards and used.card_busy_seconds is not None:
                idle_hours[used.pod.uid] += hours * used.pod.cards - used.card_busy_seconds / 3600
        return sorted(idle_hours.values(), reverse=True)[:20]

    def work(self) -> dict[tuple[str, str | None, str | None, str], tuple[int, float, float, float]]:
        """By level, tenant, user and kind: tasks, hours, CPU hours and card hours."""
        totals: dict[tuple[str, str | None, str | None, str], tuple[int, float, float, float]] = {}
        for level, held in (("pod", self.year.pods), ("job", self.year.jobs)):
            for workload in held:
                end = self.last if workload.last is None else min(workload.last, self.last)
                slots = end - max(workload.first, self.first)
                if slots > 0:
                    key = (level, workload.tenant, workload.username, workload.kind)
                    tasks, hours, cpu, card = totals.get(key, (0, 0.0, 0.0, 0.0))
                    own = slots / SLOTS_PER_HOUR
                    totals[key] = (tasks + 1, hours + own, cpu + own * workload.cpus, card + own * workload.cards)
        return totals

    def one_card_tasks(self) -> dict[tuple[str, str | None, str], tuple[float, ...]]:
        """By level, tenant and kind: tasks, requests and the percentiles of the peaks."""
        cpu: dict[str, float] = defaultdict(float)
        memory: dict[str, float] = defaultdict(float)
        pods: dict[str, Held] = {}
        for used, hours in self.usage():
            if used.pod.cards == 1:
                pods[used.pod.uid] = used.pod
                cpu[used.pod.uid] = max(cpu[used.pod.uid], used.cpu_seconds / 3600 / hours)
                memory[used.pod.uid] = max(memory[used.pod.uid], used.memory_peak / GIB)
        groups: dict[tuple[str, str | None, str], list[str]] = defaultdict(list)
        for uid, pod in pods.items():
            groups["pod", pod.tenant, pod.kind].append(uid)
        for job in self.year.jobs:
            slots = (job.last or 0) - job.first
            inside = job.last is not None and self.first < job.last <= self.last
            if inside and slots > 0 and job.cards == 1 and job.used is not None:
                pods[job.uid] = job
                cpu[job.uid] = job.used[0] / (slots * SLOT.total_seconds())
                memory[job.uid] = job.used[1] / GIB
                groups["job", job.tenant, job.kind].append(job.uid)
        return {
            key: (
                len(uids),
                sum(pods[uid].cpus for uid in uids) / len(uids),
                _percentile([cpu[uid] for uid in uids], 0.5),
                _percentile([cpu[uid] for uid in uids], 0.95),
                sum(pods[uid].memory_bytes for uid in uids) / len(uids) / GIB,
                _percentile([memory[uid] for uid in uids], 0.5),
                _percentile([memory[uid] for uid in uids], 0.95),
            )
            for key, uids in groups.items()
        }

    def sessions(self) -> dict[date, tuple[int, int, int]]:
        """By month: users, notebooks, most at once."""
        notebooks = [pod for pod in self.year.pods if pod.kind == "notebook"]
        most: dict[date, float] = defaultdict(float)
        for month, value in zip(self.months, self.curve(notebooks, None), strict=True):
            most[month] = max(most[month], value)
        users: dict[date, set[str | None]] = defaultdict(set)
        count: dict[date, int] = defaultdict(int)
        for pod in notebooks:
            end = self.last if pod.last is None else min(pod.last, self.last)
            begin = max(pod.first, self.first)
            # a notebook that runs across months counts in each
            for month in {_month(slot) for slot in range(begin, end)} if begin < end else set():
                users[month].add(pod.username)
                count[month] += 1
        return {month: (len(users[month]), count[month], round(most[month])) for month in count}

    def energy(self) -> float:
        """kWh of all cards."""
        slots = ((hour * SLOTS_PER_HOUR, joules) for _, hour, joules in self.year.energy)
        return sum(joules for slot, joules in slots if self.first <= slot < self.last) / 3.6e6


def _percentile(values: list[float], share: float) -> float:
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


_MONTHS: dict[int, date] = {}


def _month(slot: int) -> date:
    day = slot // (24 * SLOTS_PER_HOUR)
    if day not in _MONTHS:
        _MONTHS[day] = at(slot).date().replace(day=1)
    return _MONTHS[day]
