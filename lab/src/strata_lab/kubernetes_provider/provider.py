"""The gRPC service pulumirpc.ResourceProvider for the package `kubernetes`."""
# ruff: noqa: ARG002  every method of the protocol is given request and context

from __future__ import annotations

import hashlib
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.empty_pb2 import Empty
from google.rpc.status_pb2 import Status
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, plugin_pb2, provider_pb2_grpc
from pulumi.runtime.proto import provider_pb2 as pb

from strata_lab.kubernetes_provider import release
from strata_lab.kubernetes_provider.helm import Cluster, CommandFailed, Say
from strata_lab.kubernetes_provider.properties import dump, has_unknown, load, plain

VERSION = metadata.version("pulumi-kubernetes")
"""The engine asks for the plugin of the Python package's version."""
RELEASE = "kubernetes:helm.sh/v3:Release"
_MEGABYTES_400 = 400 << 20
_LIMITS = [("grpc.max_receive_message_length", _MEGABYTES_400), ("grpc.max_send_message_length", _MEGABYTES_400)]
_WORKERS = 128
"""The engine asks for all releases at once, and each waits for its pods."""


class ErrorsAsStatus(grpc.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Turns exceptions into gRPC statuses; one after which the release exists carries the state to keep."""

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        """Wraps the handler of a call."""
        handler = continuation(details)
        if handler is None or handler.unary_unary is None:
            return handler

        def run(request: Any, context: Any) -> Any:
            try:
                return handler.unary_unary(request, context)
            except release.InitializationFailed as error:
                detail = AnyMessage()
                detail.Pack(
                    pb.ErrorResourceInitFailed(id=error.id, properties=dump(error.state), reasons=error.reasons)
                )
                status = Status(code=grpc.StatusCode.UNKNOWN.value[0], message=str(error), details=[detail])
                context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
                context.abort(grpc.StatusCode.UNKNOWN, str(error))
            except Exception as error:
                context.abort(grpc.StatusCode.UNKNOWN, str(error) or repr(error))

        return grpc.unary_unary_rpc_method_handler(
            run, request_deserializer=handler.request_deserializer, response_serializer=handler.response_serializer
        )


class Provider(provider_pb2_grpc.ResourceProviderServicer):
    """Serves releases of one cluster; the methods and their names are the protocol's.

    Args:
        engine: address of the engine, for messages; empty for none.
    """

    def __init__(self, engine: str = "") -> None:
        self._cluster: Cluster | None = None
        self._attach(engine)

    def _attach(self, engine: str) -> None:
        self._engine = engine_pb2_grpc.EngineStub(grpc.insecure_channel(engine)) if engine else None

    def _say(self, urn: str) -> Say:
        def say(message: str) -> None:
            if self._engine is not None:
                self._engine.Log(
                    engine_pb2.LogRequest(severity=engine_pb2.INFO, urn=urn, message=message, ephemeral=True)
                )

        return say

    @property
    def cluster(self) -> Cluster:
        """The configured cluster.

        Raises:
            CommandFailed: the kubeconfig is not known yet.
        """
        if self._cluster is None:
            raise CommandFailed("the kubeconfig is not known yet")
        return self._cluster

    def Attach(self, request: plugin_pb2.PluginAttach, context: object) -> Empty:
        self._attach(request.address)
        return Empty()

    def Handshake(self, request: pb.ProviderHandshakeRequest, context: object) -> pb.ProviderHandshakeResponse:
        self._attach(request.engine_address)
        return pb.ProviderHandshakeResponse(accept_secrets=True, accept_resources=False, accept_outputs=False)

    def GetPluginInfo(self, request: Empty, context: object) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version=VERSION)

    def GetSchema(self, request: pb.GetSchemaRequest, context: object) -> pb.GetSchemaResponse:
        return pb.GetSchemaResponse(schema=f'{{"name": "kubernetes", "version": "{VERSION}"}}')

    def CheckConfig(self, request: pb.CheckRequest, context: object) -> pb.CheckResponse:
        return pb.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: pb.DiffRequest, context: object) -> pb.DiffResponse:
        changed = request.olds != request.news
        return pb.DiffResponse(changes=pb.DiffResponse.DIFF_SOME if changed else pb.DiffResponse.DIFF_NONE)

    def Configure(self, request: pb.ConfigureRequest, context: object) -> pb.ConfigureResponse:
        config = plain(load(request.args))
        kubeconfig = config.get("kubeconfig") or os.environ.get("KUBECONFIG", "")
        self._cluster = None if has_unknown(config) else Cluster(kubeconfig, config.get("context") or "")
        return pb.ConfigureResponse(
            acceptSecrets=True, supportsPreview=True, acceptResources=False, acceptOutputs=False
        )

    def Check(self, request: pb.CheckRequest, context: object) -> pb.CheckResponse:
        parts = request.urn.split("::")
        if parts[2].rsplit("$", 1)[-1] != RELEASE:
            reason = "the substitute provider knows Helm releases only; install the official plugin for more"
            return pb.CheckResponse(inputs=request.news, failures=[pb.CheckFailure(reason=reason)])
        suffix = hashlib.sha256(request.randomSeed).hexdigest()[:8]
        try:
            inputs = release.check(load(request.olds), load(request.news), f"{parts[3]}-{suffix}")
        except ValueError as error:
            return pb.CheckResponse(inputs=request.news, failures=[pb.CheckFailure(reason=str(error))])
        return pb.CheckResponse(inputs=dump(inputs))

    def Diff(self, request: pb.DiffRequest, context: object) -> pb.DiffResponse:
        changes, replaces = release.diff(load(request.old_inputs), load(request.news))
        # a kind that replaces is the plain kind's number plus one
        kinds: dict[str, Any] = {path: kind + 1 if path in replaces else kind for path, kind in changes.items()}
        return pb.DiffResponse(
            changes=pb.DiffResponse.DIFF_SOME if changes else pb.DiffResponse.DIFF_NONE,
            replaces=sorted(replaces),
            detailedDiff={path: pb.PropertyDiff(kind=kind, inputDiff=True) for path, kind in kinds.items()},
            hasDetailedDiff=True,
        )

    def Create(self, request: pb.CreateRequest, context: object) -> pb.CreateResponse:
        news = load(request.properties)
        if request.preview:
            return pb.CreateResponse(id="", properties=dump(release.planned(news)))
        id, state = release.create(self.cluster, news, self._say(request.urn))
        return pb.CreateResponse(id=id, properties=dump(state))

    def Read(self, request: pb.ReadRequest, context: object) -> pb.ReadResponse:
        id, state, inputs = release.read(self.cluster, request.id, load(request.inputs), load(request.properties))
        return pb.ReadResponse(id=id, properties=dump(state), inputs=dump(inputs))

    def Update(self, request: pb.UpdateRequest, context: object) -> pb.UpdateResponse:
        news = load(request.news)
        if request.preview:
            return pb.UpdateResponse(properties=dump(release.planned(news)))
        return pb.UpdateResponse(
            properties=dump(release.update(self.cluster, request.id, news, self._say(request.urn)))
        )

    def Delete(self, request: pb.DeleteRequest, context: object) -> Empty:
        release.delete(self.cluster, load(request.properties))
        return Empty()

    def Cancel(self, request: Empty, context: object) -> Empty:
        if self._cluster is not None:
            self._cluster.cancel()
        return Empty()


def serve(arguments: list[str]) -> None:
    """Serves until the engine ends. The first line on stdout is the port, the last argument the engine's address."""
    # the engine ends a plugin with a signal, an interrupt by the user comes as the call Cancel
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))
    engine = next((argument for argument in reversed(arguments) if not argument.startswith("-")), "")
    server = grpc.server(ThreadPoolExecutor(_WORKERS), options=_LIMITS, interceptors=[ErrorsAsStatus()])
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(Provider(engine), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    parent = os.getppid()
    while server.wait_for_termination(timeout=1):
        if engine and os.getppid() != parent:  # the engine was killed
            break
    sys.exit(0)
