"""The kubelet's side of the device plugin API v1beta1, for plugins under test.

The messages are those of k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto, as far as the tests read them.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SECONDS = 120
"""How long a plugin may take to answer; on a busy machine its start alone takes many seconds."""

_STRING, _BOOL, _INTEGER = "TYPE_STRING", "TYPE_BOOL", "TYPE_INT64"
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "Empty": {},
    "RegisterRequest": {"version": (1, _STRING), "endpoint": (2, _STRING), "resource_name": (3, _STRING)},
    "NUMANode": {"ID": (1, _INTEGER)},
    "TopologyInfo": {"nodes": (1, "*NUMANode")},
    "Device": {"ID": (1, _STRING), "health": (2, _STRING), "topology": (3, "TopologyInfo")},
    "ListAndWatchResponse": {"devices": (1, "*Device")},
    "ContainerAllocateRequest": {"devices_ids": (1, "*" + _STRING)},
    "AllocateRequest": {"container_requests": (1, "*ContainerAllocateRequest")},
    "Entry": {"key": (1, _STRING), "value": (2, _STRING)},
    "CDIDevice": {"name": (1, _STRING)},
    "ContainerAllocateResponse": {"envs": (1, "*Entry"), "cdi_devices": (5, "*CDIDevice")},
    "AllocateResponse": {"container_responses": (1, "*ContainerAllocateResponse")},
}
"""Message → field → number and type; `*` for repeated ones, and a map is a repeated Entry."""


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="strata/deviceplugin.proto", package="v1beta1", syntax="proto3")
    field_type = descriptor_pb2.FieldDescriptorProto
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            added = message.field.add(name=field, number=number, label=field_type.LABEL_OPTIONAL)
            if kind.startswith("*"):
                added.label = field_type.LABEL_REPEATED
            kind = kind.removeprefix("*")
            if kind in _MESSAGES:
                added.type, added.type_name = field_type.TYPE_MESSAGE, f".v1beta1.{kind}"
            else:
                added.type = getattr(field_type, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {n: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"v1beta1.{n}")) for n in _MESSAGES}


_CLASSES = _classes()


class Plugin:
    """A plugin that has registered.

    Args:
        channel: to its socket.
        resource: that it offers.
    """

    def __init__(self, channel: grpc.Channel, resource: str) -> None:
        self.resource = resource
        self._channel = channel
        watch = self._method(channel.unary_stream, "ListAndWatch", "ListAndWatchResponse")
        self._lists = watch(_CLASSES["Empty"](), timeout=SECONDS)

    @staticmethod
    def _method(kind: Callable[..., Any], name: str, answer: str) -> Any:
        return kind(
            f"/v1beta1.DevicePlugin/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=_CLASSES[answer].FromString,
        )

    def devices(self) -> dict[str, str]:
        """Device to health, once the plugin sends its next list."""
        return {device.ID: device.health for device in self.next_list()}

    def next_list(self) -> list[Any]:
        """The devices of the plugin's next list."""
        return list(next(self._lists).devices)

    def allocate(self, *devices: str) -> Any:
        """What a container gets that is given these devices.

        Raises:
            grpc.RpcError: the plugin refuses.
        """
        request = _CLASSES["AllocateRequest"]()
        request.container_requests.add(devices_ids=devices)
        call = self._method(self._channel.unary_unary, "Allocate", "AllocateResponse")
        (answer,) = call(request, timeout=SECONDS).container_responses
        return answer


class Kubelet:
    """Listens on kubelet.sock for registrations.

    Args:
        directory: of the sockets; the plugin's /var/lib/kubelet/device-plugins.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._registered: queue.Queue[Any] = queue.Queue()

    def _register(self, request: Any, _: grpc.ServicerContext) -> Any:
        self._registered.put(request)
        return _CLASSES["Empty"]()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Serves while inside; each time with a new socket, as after a restart of the kubelet."""
        socket = self._directory / "kubelet.sock"
        socket.unlink(missing_ok=True)
        server = grpc.server(ThreadPoolExecutor(2))
        register = grpc.unary_unary_rpc_method_handler(
            self._register, _CLASSES["RegisterRequest"].FromString, lambda message: message.SerializeToString()
        )
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": register}),)
        )
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        try:
            yield
        finally:
            server.stop(None).wait()

    @contextmanager
    def plugin(self) -> Iterator[Plugin]:
        """The next plugin that registers.

        Raises:
            queue.Empty: none does.
        """
        request = self._registered.get(timeout=SECONDS)
        with grpc.insecure_channel(f"unix:{self._directory / request.endpoint}") as channel:
            yield Plugin(channel, request.resource_name)
