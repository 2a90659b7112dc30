"""Tests which programs share the NPU's memory, and the addresses of their tensors then."""

import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tools.artifacts.ethos_u.testing import payload_of
from tools.artifacts.program.program import ProgramFile, ScalarType
from tools.artifacts.program.program_schema import AllocationDetails, CompileSpec, DelegateCall, KernelCall, Tensor
from tools.pipeline.compile.in_place import is_in_place, use_in_place
from tools.pipeline.link.backends import Backend, arena_alignment, delegate_arenas

_SCRATCH = 208


def _place(size: int, offset: int) -> bytes:
    return struct.pack("<I6i3i", 1, 1, 1, 1, 1, 1, size, 1, offset, 1)


def _payload() -> bytes:
    blocks = {"cmd_data": b"", "weight_data": b"", "scratch_size": struct.pack("<I", _SCRATCH)}
    return payload_of(blocks | {"inputs": _place(100, 32), "outputs": _place(10, 192)})


def _tensor(size: int, offset: int) -> Any:
    tensor = Tensor.__new__(Tensor)
    tensor.scalar_type, tensor.sizes, tensor.data_buffer_idx, tensor.shape_dynamism = ScalarType.CHAR, [size], 0, 0
    tensor.allocation_info = AllocationDetails(1, offset, 0)
    return SimpleNamespace(val=tensor)


class _File(ProgramFile):
    def delegate(self, reference: Any) -> bytes:
        return _payload()


_FILE = _File(Path("x.pte"), SimpleNamespace(), b"", 0, 0)


def _method() -> Any:
    call = DelegateCall.__new__(DelegateCall)
    call.delegate_index, call.args = 0, [0, 1]
    return SimpleNamespace(
        inputs=[0],
        outputs=[1],
        values=[_tensor(100, 0), _tensor(10, 112)],
        chains=[SimpleNamespace(instructions=[SimpleNamespace(instr_args=call)])],
        delegates=[SimpleNamespace(id="EthosUBackend", processed=None, compile_specs=[CompileSpec("a", b"b")])],
        non_const_buffer_sizes=[0, 128],
    )


def test_a_program_of_one_delegate_lies_in_the_npus_memory() -> None:
    method = _method()
    use_in_place(_FILE, method)
    assert is_in_place(method.delegates[0])
    assert [value.val.allocation_info.memory_offset_low for value in method.values] == [32, 192]
    assert method.non_const_buffer_sizes == [0, _SCRATCH]


def test_memory_of_a_program_that_is_loaded() -> None:
    # Whole lines of the cache, as what it works in has no other's data in its last line.
    temp = delegate_arenas(_FILE, _method(), 0, [Backend("EthosUBackend", 48, 0)], 4)[1]
    assert (temp, temp - _SCRATCH) == (224, 16)
    assert arena_alignment(_method(), 16) == 32
    method = _method()
    _another_backend(method)
    assert arena_alignment(method, 16) == 16


def _another_kernel(method: Any) -> None:
    method.chains[0].instructions.append(SimpleNamespace(instr_args=KernelCall.__new__(KernelCall)))


def _another_tensor(method: Any) -> None:
    method.values.append(_tensor(4, 124))


def _one_tensor_twice(method: Any) -> None:
    method.chains[0].instructions[0].instr_args.args = [0, 0]


def _a_state(method: Any) -> None:
    method.values[0].val.data_buffer_idx = 1


def _a_caller_s_tensor(method: Any) -> None:
    method.values[0].val.allocation_info = None


def _another_size(method: Any) -> None:
    method.values[1].val.sizes = [11]


def _a_dynamic_shape(method: Any) -> None:
    method.values[1].val.shape_dynamism = 1


def _another_backend(method: Any) -> None:
    method.delegates[0].id = "MyBackend"


def _two_delegates(method: Any) -> None:
    method.delegates.append(method.delegates[0])


def _two_memories(method: Any) -> None:
    method.non_const_buffer_sizes.append(16)


@pytest.mark.parametrize(
    "change",
    [
        _another_kernel,
        _another_tensor,
        _one_tensor_twice,
        _a_state,
        _a_caller_s_tensor,
        _another_size,
        _a_dynamic_shape,
        _another_backend,
        _two_delegates,
        _two_memories,
    ],
)
def test_any_other_program_stays_as_it_is(change: Callable[[Any], None]) -> None:
    method = _method()
    change(method)
    sizes = list(method.non_const_buffer_sizes)
    use_in_place(_FILE, method)
    assert not any(is_in_place(delegate) for delegate in method.delegates)
    assert method.non_const_buffer_sizes == sizes
    assert [v.val.allocation_info.memory_offset_low for v in method.values[1:]] == [112, 124][: len(method.values) - 1]
