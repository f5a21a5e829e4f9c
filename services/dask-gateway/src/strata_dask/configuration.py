"""Configuration of the gateway and of the controller, from the chart's JSON file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from strata_dask.options import cluster_options

c: Any = get_config()  # type: ignore[name-defined]  # noqa: F821  # traitlets defines it
SETTINGS = json.loads(Path(os.environ["DASK_GATEWAY_SETTINGS"]).read_text())
PORT = SETTINGS["port"]

for part in (c.KubeBackend, c.KubeController):
    part.api_url = f"{SETTINGS['url']}/api"
    part.gateway_instance = SETTINGS["instance"]
    part.common_labels = {"app.kubernetes.io/name": "dask-cluster"}
c.DaskGateway.backend_class = "strata_dask.backend.Backend"
# the proxy listens for all; behind it, both listen to the pod only
c.DaskGateway.address = f"127.0.0.1:{PORT + 1}"
c.KubeController.address = f"127.0.0.1:{PORT + 2}"
c.Proxy.address = f":{PORT}"
c.DaskGateway.authenticator_class = "dask_gateway_server.auth.JupyterHubAuthenticator"
c.JupyterHubAuthenticator.jupyterhub_api_url = SETTINGS["hub"]["url"]
c.JupyterHubAuthenticator.jupyterhub_service_name = SETTINGS["hub"]["service"]
c.JupyterHubAuthenticator.jupyterhub_api_token = Path(os.environ["DASK_GATEWAY_HUB_TOKEN"]).read_text()
c.Backend.clusters_per_user = SETTINGS["clustersPerUser"]
c.Backend.server_check_seconds = SETTINGS["serverCheckSeconds"]
c.Backend.cluster_options = cluster_options(SETTINGS)
# upstream's defaults are commands that distributed no longer has
c.KubeClusterConfig.scheduler_cmd = ["dask", "scheduler"]
c.KubeClusterConfig.worker_cmd = ["dask", "worker"]
c.KubeClusterConfig.idle_timeout = SETTINGS["idleSeconds"]
c.KubeClusterConfig.cluster_max_workers = SETTINGS["maximumWorkers"]
# a record of an ended cluster; its pods and its Secret are gone at once
c.KubeController.completed_cluster_max_age = 600
c.KubeController.completed_cluster_cleanup_period = 60
# a full quota is tried again soon: a tenant's next pod may have room
c.KubeController.backoff_max_delay = 15
