"""Provisions NFS volumes: a folder of the export, and a PersistentVolume with it, for each claim of a storage class.

Takes the classes of csi-driver-nfs (`provisioner: nfs.csi.k8s.io`) and their parameters `share`, `server`, `subDir` and
`mountPermissions`, and writes volumes that kubelets mount themselves. Deletes both once the claim is gone, if the class
is set so. Only the standard library; everything is found out again at each pass, so that it may end at any time.
"""

import json
import os
import re
import shutil
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

DRIVER = "nfs.csi.k8s.io"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
FOLDER = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
"""Of a name that is not a path: names of namespaces, claims and volumes, joined."""
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
WATCH_SECONDS = 10
"""Between two passes, if no claim changes: volumes become Released a moment after their claim is gone."""
CLAIMS = "/api/v1/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


class Api:
    """Kubernetes' API, with the pod's account."""

    def __init__(self, url, account=ACCOUNT):
        self.url, self.account = url, account
        self.tls = ssl.create_default_context(cafile=str(account / "ca.crt"))

    def request(self, method, path, body=None):
        """The open response; the token is read again, because the kubelet renews it."""
        headers = {"Authorization": f"Bearer {(self.account / 'token').read_text().strip()}"}
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)  # noqa: S310  # https, of the cluster
        return urllib.request.urlopen(request, timeout=WATCH_SECONDS + 20, context=self.tls)  # noqa: S310

    def get(self, path):
        with self.request("GET", path) as response:
            return json.load(response)

    def wait(self, version):
        """Returns after WATCH_SECONDS, or when a claim changed after that version of their list."""
        query = urllib.parse.urlencode({"watch": "1", "timeoutSeconds": WATCH_SECONDS, "resourceVersion": version})
        with self.request("GET", f"{CLAIMS}?{query}") as response:
            response.readline()


def folder(claim, volume, parameters):
    """Name of the claim's folder.

    Raises:
        ValueError: it would be a path.
    """
    name = parameters["subDir"]
    values = {
        "pvc.metadata.namespace": claim["metadata"]["namespace"],
        "pvc.metadata.name": claim["metadata"]["name"],
        "pv.metadata.name": volume,
    }
    for key, value in values.items():
        name = name.replace("${" + key + "}", value)
    if not FOLDER.fullmatch(name) or len(name) > 255:
        raise ValueError(f"the folder would be {name!r}")
    return name


def needs_volume(claim, classes):
    """Whether a volume must be made for the claim."""
    spec = claim["spec"]
    return (
        spec.get("storageClassName") in classes
        and not spec.get("volumeName")
        and not claim["metadata"].get("deletionTimestamp")
        and spec.get("volumeMode", "Filesystem") == "Filesystem"
        # nothing here copies data or chooses among volumes
        and not any(spec.get(key) for key in ("selector", "dataSource", "dataSourceRef"))
    )


def volume_of(claim, storage_class, root):
    """Makes the folder; returns the volume."""
    spec, metadata, parameters = claim["spec"], claim["metadata"], storage_class["parameters"]
    name = f"pvc-{metadata['uid']}"
    directory = folder(claim, name, parameters)
    path = root / directory
    path.mkdir(exist_ok=True)
    path.chmod(int(parameters["mountPermissions"], 8))
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: DRIVER}},
        "spec": {
            "storageClassName": spec["storageClassName"],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
            "mountOptions": storage_class.get("mountOptions", []),
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                **{key: metadata[key] for key in ("namespace", "name", "uid")},
            },
            "nfs": {"server": parameters["server"], "path": f"{parameters['share']}/{directory}"},
        },
    }


def ended(volume):
    """Whether the volume was made here and is to be deleted."""
    spec = volume["spec"]
    return (
        volume["metadata"].get("annotations", {}).get(PROVISIONED_BY) == DRIVER
        and "nfs" in spec
        and spec["persistentVolumeReclaimPolicy"] == "Delete"
        and volume.get("status", {}).get("phase") == "Released"
    )


def one_pass(api, root):
    """Makes and deletes what is due; returns the version of the list of claims."""
    classes = {c["metadata"]["name"]: c for c in api.get(CLASSES)["items"] if c["provisioner"] == DRIVER}
    volumes = api.get(VOLUMES)["items"]
    there = {volume["metadata"]["name"] for volume in volumes}
    claims = api.get(CLAIMS)
    for claim in claims["items"]:
        if needs_volume(claim, classes) and f"pvc-{claim['metadata']['uid']}" not in there:
            where = f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
            attempt(where, lambda c=claim: api.request("POST", VOLUMES, made(c, classes, root)).close())
    for volume in filter(ended, volumes):
        attempt(volume["metadata"]["name"], lambda v=volume: delete(api, v, root))
    return claims["metadata"]["resourceVersion"]


def made(claim, classes, root):
    return volume_of(claim, classes[claim["spec"]["storageClassName"]], root)


def delete(api, volume, root):
    name = volume["spec"]["nfs"]["path"].rpartition("/")[2]
    if not FOLDER.fullmatch(name) or not name.endswith(volume["metadata"]["name"]):
        raise ValueError(f"its folder {name!r} is not one of here")
    if (root / name).exists():
        shutil.rmtree(root / name)
    api.request("DELETE", f"{VOLUMES}/{volume['metadata']['name']}").close()


def attempt(what, action):
    """A claim or volume that cannot be served does not stop the others."""
    try:
        action()
        print(f"{what}: done")
    except (OSError, ValueError, KeyError) as error:
        if not isinstance(error, urllib.error.HTTPError) or error.code != 409:
            print(f"{what}: {error}")


def main(root):
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    api = Api(f"https://{f'[{host}]' if ':' in host else host}:{port}", Path(os.environ.get("ACCOUNT", ACCOUNT)))
    while True:
        try:
            api.wait(one_pass(api, root))
        except OSError as error:  # the API server restarts
            print(error)
            time.sleep(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
