"""Configuration of JupyterHub from the chart's values; extraConfig may use `c` and `get_config`, as upstream's."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import yaml
from tornado.httpclient import AsyncHTTPClient

c = get_config()  # type: ignore[name-defined]  # noqa: F821  # JupyterHub defines it
MOUNTS = Path("/usr/local/etc/jupyterhub")
VALUES = yaml.safe_load((MOUNTS / "config" / "values.yaml").read_text())


def get_config(key: str, default: Any = None) -> Any:
    """The value at a dotted path."""
    value = VALUES
    for step in key.split("."):
        if not isinstance(value, dict) or step not in value:
            return default
        value = value[step]
    return value


def secret(key: str) -> str:
    """An entry of hub.existingSecret."""
    return (MOUNTS / "existing-secret" / key).read_text()


def assign(target: Any, traits: dict[str, str]) -> None:
    """Sets the traits whose values are given."""
    for trait, key in traits.items():
        if (value := get_config(key)) is not None:
            setattr(target, trait, value)


AsyncHTTPClient.configure("tornado.curl_httpclient.CurlAsyncHTTPClient")

c.JupyterHub.spawner_class = "kubespawner.KubeSpawner"
c.JupyterHub.cleanup_servers = False
c.JupyterHub.last_activity_interval = 60
c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 0}
c.JupyterHub.hub_bind_url = "http://:8081"
c.JupyterHub.hub_connect_url = f"http://hub:{os.environ['HUB_SERVICE_PORT']}"
c.JupyterHub.cookie_secret = secret("hub.config.JupyterHub.cookie_secret")
c.CryptKeeper.keys = secret("hub.config.CryptKeeper.keys").split(";")
c.ConfigurableHTTPProxy.api_url = f"http://proxy-api:{os.environ['PROXY_API_SERVICE_PORT']}"
c.ConfigurableHTTPProxy.should_start = False
assign(
    c.JupyterHub,
    {
        "db_url": "hub.db.url",
        "concurrent_spawn_limit": "hub.concurrentSpawnLimit",
        "active_server_limit": "hub.activeServerLimit",
    },
)
assign(c.Spawner, {"consecutive_failure_limit": "hub.consecutiveFailureLimit", "default_url": "singleuser.defaultUrl"})
c.Spawner.cmd = get_config("singleuser.cmd")

c.KubeSpawner.namespace = os.environ["POD_NAMESPACE"]
c.KubeSpawner.common_labels = {
    "app": get_config("Chart.Name"),
    "release": get_config("Release.Name"),
    "app.kubernetes.io/name": get_config("Chart.Name"),
    "app.kubernetes.io/instance": get_config("Release.Name"),
    "app.kubernetes.io/managed-by": "kubespawner",
}
c.KubeSpawner.image = f"{get_config('singleuser.image.name')}:{get_config('singleuser.image.tag')}"
c.KubeSpawner.allow_privilege_escalation = False
assign(
    c.KubeSpawner,
    {
        "start_timeout": "singleuser.startTimeout",
        "uid": "singleuser.uid",
        "fs_gid": "singleuser.fsGid",
        "environment": "singleuser.extraEnv",
        "extra_labels": "singleuser.extraLabels",
        "tolerations": "scheduling.userPods.tolerations",
        "profile_list": "singleuser.profileList",
        "cpu_limit": "singleuser.cpu.limit",
        "cpu_guarantee": "singleuser.cpu.guarantee",
        "mem_limit": "singleuser.memory.limit",
        "mem_guarantee": "singleuser.memory.guarantee",
    },
)
home = get_config("singleuser.storage.static")
c.KubeSpawner.volumes = [
    {"name": "home", "persistentVolumeClaim": {"claimName": home["pvcName"]}},
    *get_config("singleuser.storage.extraVolumes"),
]
c.KubeSpawner.volume_mounts = [
    {"name": "home", "mountPath": get_config("singleuser.storage.homeMountPath"), "subPath": home["subPath"]},
    *get_config("singleuser.storage.extraVolumeMounts"),
]

c.JupyterHub.services = [
    {**service, "name": name, "api_token": secret(f"hub.services.{name}.apiToken")}
    for name, service in get_config("hub.services").items()
]
c.JupyterHub.load_roles = [{**role, "name": name} for name, role in get_config("hub.loadRoles").items()]
if get_config("cull.enabled"):
    name = "jupyterhub-idle-culler"
    command = [
        sys.executable, "-m", "jupyterhub_idle_culler", "--url=http://localhost:8081/hub/api",
        f"--timeout={get_config('cull.timeout')}", f"--cull-every={get_config('cull.every')}",
        f"--max-age={get_config('cull.maxAge')}",
    ]  # fmt: skip
    scopes = ["list:users", "read:users:activity", "read:servers", "delete:servers"]
    c.JupyterHub.services.append({"name": name, "command": command})
    c.JupyterHub.load_roles.append({"name": name, "scopes": scopes, "services": [name]})

for section, settings in get_config("hub.config").items():
    c[section].update(settings)
for _, code in sorted(get_config("hub.extraConfig").items()):
    exec(code)  # noqa: S102  # extraConfig is Python by definition
