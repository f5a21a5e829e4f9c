"""Which execution points to create and to delete; decides from what it is given only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

LEAST_USAGE = 0.5
"""CPUs that a tenant without history counts with; HTCondor's own lower bound of a user's priority."""


@dataclass(frozen=True, order=True)
class Shape:
    """What a job requests; jobs of one shape can run in each other's execution points.

    Args:
        tenant: whose jobs only.
        cpus: CPUs.
        memory: MiB.
        cards: accelerators.
        image: name of the image that it runs in.
    """

    tenant: str
    cpus: int
    memory: int
    cards: int = 0
    image: str = ""

    @property
    def label(self) -> str:
        """CPUs, memory and cards, as the value of a label."""
        return f"{self.cpus}-{self.memory}-{self.cards}"


@dataclass(frozen=True)
class Point:
    """An execution point: a Kubernetes Job that has not ended.

    Args:
        name: of the Kubernetes Job.
        shape: what it was created for.
        running: whether its pod is ready.
        busy: whether it runs a job.
        reserved: whether it was created with a reservation.
    """

    name: str
    shape: Shape
    running: bool = False
    busy: bool = False
    reserved: bool = False


@dataclass(frozen=True)
class Limits:
    """The most that a tenant's execution points request together.

    Args:
        cpus: CPUs.
        memory: MiB.
        cards: accelerators.
        priority_factor: a higher one is a smaller share.
    """

    cpus: int
    memory: int
    cards: int = 0
    priority_factor: float = 1.0


@dataclass(frozen=True)
class Plan:
    """What to do.

    Args:
        create: shapes of new execution points.
        delete: names of execution points that wait for a node and have no job any more.
        refused: shapes of jobs that are beyond their tenant's limits, or whose image the pool does not have.
        waiting: shapes of jobs for which the tenant's quota has no room now.
    """

    create: tuple[Shape, ...] = ()
    delete: tuple[str, ...] = ()
    refused: tuple[Shape, ...] = ()
    waiting: tuple[Shape, ...] = ()


@dataclass
class _Use:
    cpus: int = 0
    memory: int = 0
    cards: int = 0

    def add(self, shape: Shape) -> None:
        self.cpus += shape.cpus
        self.memory += shape.memory
        self.cards += shape.cards

    def allows(self, shape: Shape, limits: Limits) -> bool:
        return (
            self.cpus + shape.cpus <= limits.cpus
            and self.memory + shape.memory <= limits.memory
            and self.cards + shape.cards <= limits.cards
        )


@dataclass
class Pool:
    """The limits of a pool.

    Args:
        maximum: execution points at one time.
        tenants: limits of each; jobs of others get no execution point.
        images: names; jobs with others get no execution point.
    """

    maximum: int
    tenants: Mapping[str, Limits] = field(default_factory=dict)
    images: Collection[str] = ("",)

    def plan(
        self,
        idle: Mapping[Shape, int],
        points: Sequence[Point],
        usage: Mapping[str, float],
        reserve: Callable[[Shape], bool] = lambda _: True,
    ) -> Plan:
        """Execution points for idle jobs, one at a time to the tenant that is furthest below its share.

        A share is inverse to the tenant's usage, recent and present, times its priority factor.

        Args:
            idle: number of idle jobs by shape.
            points: all that have not ended.
            usage: CPUs that each tenant used, decayed over time.
            reserve: takes room for an execution point in what is left of its tenant's quota; False if it is too
                little.
        """
        spare = Counter(point.shape for point in points if not point.busy)
        missing = {shape: count - spare[shape] for shape, count in sorted(idle.items()) if count > spare[shape]}
        refused = tuple(s for s in missing if not self._possible(s))
        use: dict[str, _Use] = {}
        for point in points:
            use.setdefault(point.shape.tenant, _Use()).add(point.shape)
        delete = _surplus(idle, points, spare)
        create: list[Shape] = []
        waiting: list[Shape] = []
        while len(points) - len(delete) + len(create) < self.maximum:
            possible = [s for s, count in missing.items() if count > 0 and s not in refused and self._fits(s, use)]
            if not possible:
                break
            chosen = min(possible, key=lambda shape: (self._charge(shape, use, usage), shape))
            if not reserve(chosen):
                waiting.append(chosen)
                del missing[chosen]
                continue
            missing[chosen] -= 1
            use.setdefault(chosen.tenant, _Use()).add(chosen)
            create.append(chosen)
        return Plan(tuple(create), tuple(delete), refused, tuple(waiting))

    def _possible(self, shape: Shape) -> bool:
        return shape.image in self.images and self._fits(shape, {})

    def _fits(self, shape: Shape, use: Mapping[str, _Use]) -> bool:
        limits = self.tenants.get(shape.tenant)
        return limits is not None and use.get(shape.tenant, _Use()).allows(shape, limits)

    def _charge(self, shape: Shape, use: Mapping[str, _Use], usage: Mapping[str, float]) -> float:
        present = use.get(shape.tenant, _Use()).cpus + shape.cpus
        recent = max(LEAST_USAGE, usage.get(shape.tenant, 0.0))
        return present * recent * self.tenants[shape.tenant].priority_factor


def _surplus(idle: Mapping[Shape, int], points: Sequence[Point], spare: Mapping[Shape, int]) -> list[str]:
    """Of each shape, those that no job waits for and that have no node yet; the others end by themselves."""
    left = {shape: count - idle.get(shape, 0) for shape, count in spare.items()}
    surplus = []
    for point in points:
        if not point.running and not point.busy and left[point.shape] > 0:
            left[point.shape] -= 1
            surplus.append(point.name)
    return surplus
