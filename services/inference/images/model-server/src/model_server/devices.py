"""Device and number type of the model."""

from __future__ import annotations

import torch

from model_server.settings import Accelerator, Settings

OVERFLOW_IN_HALF = frozenset({"t5", "mt5", "umt5", "longt5", "pix2struct", "switch_transformers"})
"""Model types whose activations exceed what float16 holds."""


class DeviceError(Exception):
    """The device that the settings require is missing."""


def choose_device(settings: Settings) -> torch.device:
    """The device of the model, with its part of the memory set.

    Raises:
        DeviceError: a GPU is required, and there is none.
    """
    if settings.accelerator is Accelerator.CPU:
        return torch.device("cpu")
    if torch.cuda.is_available():
        if settings.gpu_memory_fraction < 1:
            torch.cuda.set_per_process_memory_fraction(settings.gpu_memory_fraction)
        return torch.device("cuda")
    if settings.accelerator is Accelerator.GPU:
        raise DeviceError(
            "ACCELERATOR is gpu, but PyTorch finds no GPU; request one for the pod, use an image with PyTorch for "
            "CUDA, or set ACCELERATOR to cpu or auto"
        )
    return torch.device("cpu")


def choose_dtype(device: torch.device, model_type: str) -> torch.dtype:
    """bfloat16 on GPUs that compute with it, float16 on older ones for models that do not overflow, else float32."""
    if device.type != "cuda":
        return torch.float32
    # torch.cuda.is_bf16_supported() is true where it is only emulated: V100 (7.0)
    if torch.cuda.get_device_capability(device) >= (8, 0):
        return torch.bfloat16
    return torch.float32 if model_type in OVERFLOW_IN_HALF else torch.float16
