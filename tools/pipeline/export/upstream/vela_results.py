"""Reads and makes what ExecuTorch's call of Vela returns: bytes, and since 1.5 an object that has them."""

from typing import Any

from executorch.backends.arm import arm_vela


def payload_of(result: Any) -> bytes:
    """Returns the payload that a call of Vela returned."""
    return bytes(getattr(result, "processed_bytes", result))


def result_of(payload: bytes) -> Any:
    """Returns a payload as the installed release's backend takes it from a call of Vela."""
    kind = getattr(arm_vela, "VelaCompileResult", bytes)
    return kind(payload)
