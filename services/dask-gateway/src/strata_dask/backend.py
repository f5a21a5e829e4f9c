"""Upstream's Kubernetes backend with upstream's own proxy, and the end of clusters whose notebook has ended."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import datetime
from typing import Any
from urllib.parse import quote

import aiohttp
from dask_gateway_server.backends.base import PublicException
from dask_gateway_server.backends.kubernetes import KubeBackend
from dask_gateway_server.models import ClusterStatus
from dask_gateway_server.proxy import Proxy
from traitlets import Float, Integer

HUB_SECONDS = 20
SEEN_SECONDS = 10.0
NOT_FOUND = 404


class Backend(KubeBackend):  # type: ignore[misc]  # it ships no types
    """Clusters are DaskCluster objects in the tenants' namespaces; JupyterHub knows whose servers run."""

    clusters_per_user = Integer(1, min=1, help="Clusters that a user may have at one time.", config=True)
    server_check_seconds = Float(10, min=0.1, help="Time between two checks of users' servers.", config=True)

    async def setup(self, app: Any) -> None:
        """Starts the proxy, the watch of clusters, and the checks."""
        self.proxy = Proxy(parent=self, log=self.log)
        self._starting: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        await self.proxy.setup(app)
        await super().setup(app)
        self._checks = asyncio.create_task(self._check_servers())

    async def cleanup(self) -> None:
        """Ends all of them; clusters stay."""
        if hasattr(self, "_checks"):
            self._checks.cancel()
        await super().cleanup()
        if hasattr(self, "proxy"):
            await self.proxy.cleanup()

    async def start_cluster(self, user: Any, cluster_options: Any) -> str:
        """Creates a cluster, unless the user has as many as allowed.

        Raises:
            PublicException: a text for the user.
        """
        async with self._starting[user.name]:
            count = len(await self.list_clusters(user.name))
            if count >= self.clusters_per_user:
                raise PublicException(
                    f"{user.name} has {count} Dask cluster(s), and may have {self.clusters_per_user}: "
                    "connect to one with Gateway().connect(Gateway().list_clusters()[0].name), or end it with "
                    "Gateway().stop_cluster(Gateway().list_clusters()[0].name)"
                )
            name = str(await super().start_cluster(user, cluster_options))
            # the next request must count it
            end = asyncio.get_running_loop().time() + SEEN_SECONDS
            while name not in self.clusters and asyncio.get_running_loop().time() < end:
                await asyncio.sleep(0.05)
            return name

    async def sync_cluster(self, cluster_name: str) -> None:
        """Reads the cluster, and opens or closes its routes."""
        await super().sync_cluster(cluster_name)
        cluster = self.clusters.get(cluster_name)
        path = f"/clusters/{cluster_name}"
        if cluster is None or not cluster.scheduler_address:
            await self.proxy.remove_route(kind="PATH", path=path)
            await self.proxy.remove_route(kind="SNI", sni=cluster_name)
        elif ("SNI", cluster_name) not in self.proxy.routes:
            await self.proxy.add_route(kind="PATH", path=path, target=cluster.dashboard_address)
            await self.proxy.add_route(kind="SNI", sni=cluster_name, target=cluster.scheduler_address)

    async def _check_servers(self) -> None:
        """Stops the clusters of users whose server has ended, or was started after them."""
        while True:
            await asyncio.sleep(self.server_check_seconds)
            for user, clusters in list(self.username_to_clusters.items()):
                active = [cluster for cluster in list(clusters.values()) if cluster.status <= ClusterStatus.RUNNING]
                if not active:
                    continue
                try:
                    started = await self._server_started(user)
                    for cluster in active:
                        if started is None or cluster.start_time < started:
                            self.log.info("The server of %s has ended, and so does cluster %s", user, cluster.name)
                            await self.stop_cluster(cluster.name)
                except Exception as error:
                    # a hub or an API server that is down ends no cluster, nor this loop
                    self.log.warning("The server of %s is not checked: %s", user, error)

    async def _server_started(self, user: str) -> int | None:
        """When the user's server was started, in milliseconds since 1970; None: it does not run.

        Raises:
            aiohttp.ClientError: the hub does not respond.
        """
        hub = self.parent.authenticator
        async with self.session.get(
            f"{hub.jupyterhub_api_url}/users/{quote(user, safe='')}",
            headers={"Authorization": f"token {hub.jupyterhub_api_token}"},
            timeout=aiohttp.ClientTimeout(HUB_SECONDS),
        ) as response:
            if response.status == NOT_FOUND:
                return None
            response.raise_for_status()
            server = (await response.json())["servers"].get("")
        if server is None or server.get("stopped"):
            return None
        return int(datetime.fromisoformat(server["started"].replace("Z", "+00:00")).timestamp() * 1000)
