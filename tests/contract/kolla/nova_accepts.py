"""With OpenStack's Python: nova's own schemas check requests; prints what they refuse.

Argument: the requests as JSON, each [name of the controller's method below, microversion, query, body].
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

from nova.api.openstack.api_version_request import APIVersionRequest
from nova.api.openstack.compute.migrate_server import MigrateServerController
from nova.api.openstack.compute.migrations import MigrationsController
from nova.api.openstack.compute.servers import ServersController
from nova.api.openstack.compute.services import ServiceController
from nova.api.validation.validators import _SchemaValidator

METHODS = {
    "os-migrateLive": MigrateServerController._migrate_live,
    "migrate": MigrateServerController._migrate,
    "confirmResize": ServersController._confirm_resize,
    "PUT os-services": ServiceController.update,
    "GET os-services": ServiceController.index,
    "GET servers/detail": ServersController.detail,
    "GET os-migrations": MigrationsController.index,
}
refused = []
for name, version, query, body in json.loads(sys.argv[1]):
    method, request = METHODS[name], SimpleNamespace(api_version_request=APIVersionRequest(version))
    if body is None:
        schemas, sent = method.request_query_schemas, {key: [value] for key, value in query.items()}
    else:
        schemas, sent = method.request_body_schemas, body
    schema = schemas(request)
    try:
        _SchemaValidator(schema, False, body is not None).validate(sent)
    except Exception as error:  # nova's ValidationError, or there is no schema for this version
        refused.append(f"{name} at {version}: {error}")
json.dump(refused, sys.stdout)
