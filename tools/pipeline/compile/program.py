"""Determines the addresses and names of a program's values, before it becomes C++."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tools.artifacts.ethos_u.payload import BACKEND, CommandData, Payload, PayloadError, parse, parse_commands
from tools.artifacts.manifest.manifest import Manifest
from tools.artifacts.packed_layer.packed_layer import Head, problem_of
from tools.artifacts.program.program import ELEMENT_SIZES, ProgramFile, aligned, operator_name
from tools.pipeline.compile.chain import Fusion
from tools.pipeline.compile.in_place import is_in_place
from tools.pipeline.compile.layout import (
    NEXT_ROWS,
    Instruction,
    MethodLayout,
    elements,
    is_constant,
    kind_of,
    tensor_problem,
)
from tools.pipeline.compile.names import (
    PACKED,
    QUANTIZED_RECURRENT,
    RECURRENT,
    Names,
    camel,
    is_role,
    module_of,
    operator_base,
    parameter_name,
    results_of,
    role_of,
    snake,
)
from tools.pipeline.link.interface import NUMBERS
from tools.quiet.console import UserError

VIEW = "executorch_prim::et_view.default"


@dataclass(frozen=True)
class Shape:
    """A tensor's dtype and shape, or its largest shape."""

    dtype: str
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]

    @property
    def numel(self) -> int:
        return math.prod(self.sizes)

    @property
    def nbytes(self) -> int:
        return self.numel * ELEMENT_SIZES[self.dtype]

    @property
    def strides(self) -> tuple[int, ...]:
        """Returns the strides in elements, as the runtime computes them: a size of 0 counts as 1."""
        strides = [1] * len(self.sizes)
        step = 1
        for dim in reversed(self.dim_order):
            strides[dim] = step
            step *= self.sizes[dim] or 1
        return tuple(strides)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements are in C order; dims of size 1 don't matter."""
        order = self._order()
        return order == sorted(order)

    @property
    def is_channels_last(self) -> bool:
        """Whether images of four dims have the order [batch, height, width, channels]."""
        return len(self.sizes) == 4 and self._order() == [dim for dim in (0, 2, 3, 1) if self.sizes[dim] != 1]

    def lies_as(self, other: Shape) -> bool:
        """Whether the elements have the same order in memory as those of a tensor of the same sizes."""
        return self._order() == other._order()

    def _order(self) -> list[int]:
        return [dim for dim in self.dim_order if self.sizes[dim] != 1]


@dataclass(frozen=True)
class Delegate:
    """The part of a method that an NPU computes.

    Attributes:
        payload: its weights and where its tensors lie.
        commands: what the NPU is told.
        is_in_place: whether its tensors lie where it works, see tools/pipeline/compile/in_place.py.
    """

    payload: Payload
    commands: CommandData
    is_in_place: bool


@dataclass
class Method:
    """A method of a program that becomes C++.

    Attributes:
        file: the program.
        layout: its values.
        origins: the location in the user's model of each instruction; empty for those that are not kernel calls.
        shapes: the shape of each tensor that the method uses.
        packed: the headers of packed layers, by the constant tensor's index.
        offsets: the offsets of tensors with fixed addresses in the arena, in bytes; other memories follow it.
        constants: the names of the arrays of constant tensors and initial states, by the index of their data.
        users: the names of their readers, for comments.
        shared: the data that other methods of the program use, too.
        parameters: the user's names of tensors that are parameters or buffers of the module, by the tensor's index.
        names: the names of values' constants in C++. A value with several names, because several layers write to it,
          has the first one here.
        layers: the base names of each instruction's constants: its module, and the operator if the module calls
          several.
        layer: the base name for the instruction that named_at() was called for.
        names_at: for each instruction, the names of values that have several, before it and after it, if it writes them
          in place.
        written: the names after the instruction that named_at() was called for.
        kept: tensors in the instance: their shape or memory changes while the program runs.
        values: other values in the instance, as EValue.
        shape_places: for each kept tensor of dynamic shape, the offset of its sizes and strides, in integers.
        arena_size: the bytes of the arena.
        planned: the bytes of the buffers in the arena, each at the next multiple of PLANNED_ALIGNMENT.
        memories: the first byte after each memory's predecessor, by the names of fusion.memories.
        delegates: the parts that an NPU computes, by their index in the plan.
        fusion: chains of layers, and tensors of which only some rows have memory.
    """

    file: ProgramFile
    layout: MethodLayout
    origins: list[str]
    shapes: dict[int, Shape] = field(default_factory=dict)
    packed: dict[int, Head] = field(default_factory=dict)
    offsets: dict[int, int] = field(default_factory=dict)
    constants: dict[int, str] = field(default_factory=dict)
    users: dict[int, list[str]] = field(default_factory=dict)
    shared: frozenset[int] = frozenset()
    parameters: dict[int, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    layers: list[str] = field(default_factory=list)
    layer: str = ""
    names_at: list[tuple[dict[int, str], dict[int, str]]] = field(default_factory=list)
    written: dict[int, str] = field(default_factory=dict)
    kept: tuple[int, ...] = ()
    values: tuple[int, ...] = ()
    shape_places: dict[int, int] = field(default_factory=dict)
    arena_size: int = 0
    planned: tuple[int, ...] = ()
    memories: dict[str, int] = field(default_factory=dict)
    delegates: dict[int, Delegate] = field(default_factory=dict)
    fusion: Fusion = Fusion()

    def nbytes(self, index: int) -> int:
        """Returns the bytes of a tensor's memory."""
        return self.fusion.sizes.get(index, (self.shapes[index].nbytes,))[0]

    def memory_of(self, index: int) -> tuple[str, int]:
        """Returns the memory that a tensor with a fixed address is in besides the arena, or an empty string, and its
        offset there.
        """
        found, begin = "", 0
        for name, first in self.memories.items():
            if self.offsets[index] >= first:
                found, begin = name, first
        return found, self.offsets[index] - begin

    def named_at(self, place: int) -> Method:
        """Returns the method with the names that values have before and after an instruction."""
        before, after = self.names_at[place]
        return replace(self, names=self.names | before, written=after, layer=self.layers[place])

    @property
    def scratch_size(self) -> int:
        """The bytes that an NPU works in, besides the arena."""
        copied = [item for item in self.delegates.values() if not item.is_in_place]
        return max((item.payload.scratch_size for item in copied), default=0)

    def kept_size(self, pointer: int) -> int:
        """Returns the bytes of an instance besides its arena, for pointers of that many bytes."""
        kept = len(self.kept) * 8 + 2 * self.is_streamed
        return kept * pointer + len(self.values) * 16 + 4 * self.shape_integers

    @property
    def shape_integers(self) -> int:
        """The number of integers that the instance keeps for sizes and strides."""
        return sum(2 * len(self.shapes[index].sizes) for index in self.shape_places)

    @property
    def is_streamed(self) -> bool:
        """Whether the application hands over the rows of the input image."""
        return any(instruction.kind == NEXT_ROWS for instruction in self.layout.code)

    @property
    def row_bytes(self) -> int:
        """Returns the bytes of a row that the application hands over; 0 if inputs are whole."""
        shapes = [self.shapes[index] for index in self.plan.inputs if self.is_streamed]
        return sum(shape.nbytes // shape.sizes[2] for shape in shapes)

    @property
    def plan(self) -> Any:
        return self.layout.plan

    def value(self, index: int) -> Any:
        return self.plan.values[index]

    def operator(self, instruction: Instruction) -> str:
        """Returns the name of a kernel call's operator."""
        entry = self.plan.operators[instruction.operator]
        return operator_name(entry.name, entry.overload)

    def is_dynamic(self, index: int) -> bool:
        value = self.value(index)
        return kind_of(value) == "Tensor" and int(value.val.shape_dynamism) != 0

    def border_shape(self, index: int) -> Shape:
        """Returns the shape of an input or output; a number has one element and no dimensions."""
        number = NUMBERS.get(kind_of(self.value(index)))
        return self.shapes[index] if number is None else Shape(number.name, (), ())

    def constant_data(self, index: int) -> bytes:
        """Returns the elements of a constant tensor."""
        constants = self.file.constants()
        place = self.value(index).val.data_buffer_idx
        size = self.shapes[index].nbytes
        if not 0 < place < len(constants) or len(constants[place]) < size:
            raise UserError(f"program {self.file.path} has no constant {place} of {size} bytes: it is corrupted")
        return constants[place][:size]

    def initial_state(self, index: int) -> bytes | None:
        """Returns the initial bytes of a planned tensor, or None if it has none."""
        tensor = self.value(index).val
        if tensor.data_buffer_idx == 0:
            return None
        info = tensor.extra_tensor_info
        segments = self.file.program.mutable_data_segments or []
        segment = info.mutable_data_segments_idx if info is not None else 0
        if segment >= len(segments) or tensor.data_buffer_idx >= len(segments[segment].offsets or []):
            raise UserError(f"program {self.file.path} has no initial state {tensor.data_buffer_idx}: it is corrupted")
        start = segments[segment].offsets[tensor.data_buffer_idx]
        size = self.shapes[index].nbytes
        data = self.file.segment(segments[segment].segment_index)[start : start + size]
        if len(data) != size:
            raise UserError(
                f"program {self.file.path}: initial state {tensor.data_buffer_idx} has no {size} bytes: it is corrupted"
            )
        return data


def make_method(file: ProgramFile, layout: MethodLayout, manifest: Manifest, fusion: Fusion | None = None) -> Method:
    """Determines the address of each value of a method.

    Raises:
        UserError: compiled models don't support a delegate's backend, or a tensor is corrupted.
    """
    method = Method(file, layout, _origins(layout, manifest), fusion=fusion or Fusion())
    method.parameters = _parameters(method, manifest)
    method.delegates = _delegates(method)
    method.shared = _shared(method)
    used = [*layout.tensors, *(index for index in layout.constants if kind_of(method.value(index)) == "Tensor")]
    for index in used:
        method.shapes[index] = _shape(file, index, method.value(index).val)
    method.packed = dict(_packed_layers(method))
    bases = _memories(method)
    moved = _moved(layout, method)
    aliases = _views(method, moved)
    for index in layout.tensors:
        if index not in aliases and method.value(index).val.allocation_info is not None:
            method.offsets[index] = _offset(method, index, bases)
    _place_borders(method, moved)
    for out, base in aliases.items():
        while base in aliases:
            base = aliases[base]
        if base in method.offsets:
            method.offsets[out] = method.offsets[base]
    method.kept = tuple(
        index for index in layout.tensors if index not in method.offsets or method.is_dynamic(index) or index in moved
    )
    place = 0
    for index in method.kept:
        # A tensor without dims has no sizes to keep.
        if method.is_dynamic(index) and method.shapes[index].sizes:
            method.shape_places[index] = place
            place += 2 * len(method.shapes[index].sizes)
    targets = {i.values[0] for i in layout.code if i.kind == "MoveCall"}
    method.values = (*layout.values, *(index for index in layout.tensors if index in targets))
    _name(method)
    return method


def _parameters(method: Method, manifest: Manifest) -> dict[int, str]:
    """Returns the user's names of a method's tensors.

    Raises:
        UserError: the manifest is another program's.
    """
    values = (method.plan.values or [])[: method.fusion.values]
    tensors = [index for index, value in enumerate(values) if kind_of(value) == "Tensor"]
    if manifest.parameters and len(manifest.parameters) != len(tensors):
        raise UserError(
            f"program {method.file.path} has {len(tensors)} tensors, and its manifest {len(manifest.parameters)}: "
            "it is another program's; export the model again"
        )
    return {index: name for index, name in zip(tensors, manifest.parameters, strict=False) if name}


def _delegates(method: Method) -> dict[int, Delegate]:
    """Returns the data of a method's delegate calls.

    Raises:
        UserError: a delegate's backend is unsupported, or the delegate is corrupted.
    """
    file = method.file
    delegates = {}
    for instruction in method.layout.code:
        if instruction.kind != "DelegateCall":
            continue
        delegate = method.plan.delegates[instruction.operator]
        if delegate.id != BACKEND:
            raise UserError(
                f"program {file.path} has a delegate of backend {delegate.id}, which compiled models can't call; use "
                'torch_firmware with engine = "loaded" and backends'
            )
        try:
            payload = parse(file.delegate(delegate.processed))
            commands = parse_commands(payload.commands)
        except PayloadError as error:
            raise UserError(
                f"{file.path}: delegate {instruction.operator} is corrupted: {error}; export the model again"
            ) from error
        places = (*payload.inputs, *payload.outputs)
        sizes = [_planned_bytes(method, index) for index in instruction.values]
        if sizes != [place.size for place in places]:
            raise UserError(
                f"{file.path}: delegate {instruction.operator} is corrupted: it takes tensors of "
                f"{[place.size for place in places]} bytes and gets {sizes}; export the model again"
            )
        delegates[instruction.operator] = Delegate(payload, commands, is_in_place(delegate))
    return delegates


def _planned_bytes(method: Method, index: int) -> int:
    """Returns the bytes of a static tensor that is a constant or has planned memory; -1 for any other value."""
    value = method.value(index)
    if kind_of(value) != "Tensor" or method.is_dynamic(index):
        return -1
    if not is_constant(value) and value.val.allocation_info is None:
        return -1
    return math.prod(value.val.sizes or ()) * ELEMENT_SIZES.get(value.val.scalar_type.name, 0)


def _shared(method: Method) -> frozenset[int]:
    """Returns the data of constants that other methods of the program use, too."""
    others = [plan for plan in method.file.program.execution_plan or [] if plan is not method.plan]
    values = [value for plan in others for value in plan.values or []]
    return frozenset(value.val.data_buffer_idx for value in values if kind_of(value) == "Tensor" and is_constant(value))


def _origins(layout: MethodLayout, manifest: Manifest) -> list[str]:
    calls = iter(manifest.calls)
    return [
        (lambda call: call.place if call else "")(next(calls, None)) if i.kind == "KernelCall" else ""
        for i in layout.code
    ]


def _shape(file: ProgramFile, index: int, tensor: Any) -> Shape:
    problem = tensor_problem(tensor)
    dtype = tensor.scalar_type.name
    sizes = tuple(tensor.sizes or ())
    order = tuple(tensor.dim_order or b"")
    if dtype not in ELEMENT_SIZES:
        problem = f"has dtype {dtype}, which is not supported"
    elif len(order) != len(sizes) or sorted(order) != list(range(len(sizes))) or any(size < 0 for size in sizes):
        problem = "has a corrupted shape"
    if problem:
        raise UserError(f"program {file.path}: tensor {index} {problem}")
    return Shape(dtype, sizes, order)


def _packed_layers(method: Method) -> Iterator[tuple[int, Head]]:
    """Yields the constants of packed int8 layers with their headers. Kernels refuse invalid constants."""
    for instruction in method.layout.code:
        if instruction.kind != "KernelCall":
            continue
        operator = method.operator(instruction).partition(".")[0]
        for position, index in enumerate(instruction.values):
            if role_of(operator, position, [position]) == PACKED and is_constant(method.value(index)):
                data = method.constant_data(index)
                if problem_of(data) is None:
                    yield index, Head.unpack(data)


def _memories(method: Method) -> list[int]:
    """Returns the start of each planned memory in the arena; sets the arena's size."""
    begins = []
    sizes = list(method.plan.non_const_buffer_sizes or [])[1:]
    for size in sizes[: len(sizes) - len(method.fusion.memories)]:
        method.arena_size = aligned(method.arena_size)
        begins.append(method.arena_size)
        method.arena_size += size
        method.planned = (*method.planned, size)
    end = method.arena_size
    for name, size in method.fusion.memories.items():
        method.memories[name] = aligned(end)
        begins.append(method.memories[name])
        end = begins[-1] + size
    return begins


def _offset(method: Method, index: int, begins: Sequence[int]) -> int:
    allocation = method.value(index).val.allocation_info
    offset = int(allocation.memory_offset_low) | int(allocation.memory_offset_high) << 32
    sizes = list(method.plan.non_const_buffer_sizes or [])[1:]
    memory = int(allocation.memory_id)
    if not 0 < memory <= len(sizes) or offset + method.nbytes(index) > sizes[memory - 1]:
        raise UserError(f"program {method.file.path}: tensor {index} lies outside its planned memory")
    return begins[memory - 1] + offset


def _place_borders(method: Method, moved: set[int]) -> None:
    """Gives inputs and outputs that have no planned memory addresses after it."""
    given = moved | {
        instruction.values[2]
        for instruction in method.layout.code
        if instruction.kind == "KernelCall" and method.operator(instruction) == VIEW
    }
    for index in dict.fromkeys([*(method.plan.inputs or []), *(method.plan.outputs or [])]):
        value = method.value(index)
        if kind_of(value) != "Tensor" or value.val.allocation_info is not None or is_constant(value) or index in given:
            continue
        method.offsets[index] = aligned(method.arena_size)
        method.arena_size = method.offsets[index] + method.shapes[index].nbytes
        method.planned = (*method.planned, method.shapes[index].nbytes)


def _moved(layout: MethodLayout, method: Method) -> set[int]:
    """Returns the tensors that moves and frees refer to."""
    moved: set[int] = set()
    for instruction in layout.code:
        if instruction.kind in ("MoveCall", "FreeCall"):
            moved |= {index for index in instruction.values if kind_of(method.value(index)) == "Tensor"}
    return moved


def _views(method: Method, moved: set[int]) -> Mapping[int, int]:
    """Maps views whose memory is known at compile time to the tensors that they are views of."""
    counts: dict[int, int] = {}
    views: dict[int, int] = {}
    for instruction in method.layout.code:
        if instruction.kind == "KernelCall" and method.operator(instruction) == VIEW:
            base, _, out = instruction.values[:3]
            counts[out] = counts.get(out, 0) + 1
            views[out] = base
    return {
        out: base
        for out, base in views.items()
        if counts[out] == 1
        and not {out, base} & moved
        and not is_constant(method.value(base))
        and not method.is_dynamic(out)
        and not method.is_dynamic(base)
        and method.value(out).val.data_buffer_idx == 0
    }


def _name(method: Method) -> None:
    """Names tensors after the first module that writes them, and constants as the user does, or after the first module
    that reads them.
    """
    names = Names()
    for kind, indices in (("input", method.plan.inputs), ("output", method.plan.outputs)):
        for place, index in enumerate(indices or []):
            if index in method.shapes and index not in method.names:
                method.names[index] = names.unique(f"k{kind.capitalize()}{place}")
    calls = [
        (instruction, method.operator(instruction), module_of(origin))
        for instruction, origin in zip(method.layout.code, method.origins, strict=True)
        if instruction.kind == "KernelCall"
    ]
    counts = Counter(module for _, operator, module in calls if operator != VIEW)
    arrays = Names()
    layers = _recurrent_layers(method, calls)
    contents = _Contents(method, names)
    layer_names = []
    for place, (instruction, operator, module) in enumerate(calls):
        # Each operator of a module with several gets its own name, too.
        own = operator_base(operator)
        is_named = bool(module) and (counts[module] <= 1 or module.endswith(own))
        layer = module if is_named else "_".join(filter(None, [module, own]))
        layer_names.append(layer)
        _name_constants(method, arrays, instruction, operator, module or layer, layer, layers.get(place, ""))
        results = results_of(operator, len(instruction.values))
        for position, value in enumerate(instruction.values):
            for index in _items(method, value):
                if index < 0 or index not in method.shapes or index in method.names:
                    continue
                if is_constant(method.value(index)):
                    wanted = method.constants[method.value(index).val.data_buffer_idx]
                elif index in method.parameters:
                    wanted = parameter_name(method.parameters[index])
                elif contents.can_name(index):
                    continue
                else:
                    part = results.get(position)
                    if part is None:
                        part = _argument_kind(method, index)
                    wanted = "_".join(filter(None, [layer, part]))
                method.names[index] = names.unique(f"k{camel(wanted)}")
    named = iter(layer_names)
    for instruction in method.layout.code:
        layer = next(named) if instruction.kind == "KernelCall" else f"npu_{instruction.operator}"
        method.layers.append(camel(layer))
        method.names_at.append(contents.names_of(instruction, method.layers[-1]))
    for index in method.shapes:
        if index not in method.names:
            method.names[index] = names.unique(f"kTensor{index}")
        if is_constant(method.value(index)) and method.value(index).val.data_buffer_idx not in method.constants:
            method.constants[method.value(index).val.data_buffer_idx] = arrays.unique(f"constant_{index}")


class _Contents:
    """Tracks the contents of the arena by name, because layers reuse memory.

    Programs with branches and loops have one name for each tensor.
    """

    def __init__(self, method: Method, names: Names) -> None:
        self._method = method
        self._unique = names
        self._is_straight = all(i.kind in ("KernelCall", "DelegateCall", NEXT_ROWS) for i in method.layout.code)
        # In the order of writing: the address range, the dtype and the name.
        self._written: list[tuple[range, str, str]] = []
        # For slices of written tensors and scratch memory: the name, and the number of writes before.
        self._parts: dict[int, tuple[int, str]] = {}
        for index in method.plan.inputs or []:
            if index in method.offsets:
                self._write(index, method.names[index])

    def can_name(self, index: int) -> bool:
        """Whether a tensor may have a name for each layer that writes to it: it has a known address, and is not an
        input, an output or one of the user's.
        """
        method = self._method
        return (
            self._is_straight
            and index in method.offsets
            and index not in method.kept
            and index not in method.parameters
            and index not in (*(method.plan.inputs or []), *(method.plan.outputs or []))
            and method.value(index).val.data_buffer_idx == 0
        )

    def names_of(self, instruction: Instruction, layer: str) -> tuple[dict[int, str], dict[int, str]]:
        """Returns the names of the tensors that an instruction reads or writes, and those of tensors it writes in
        place.

        Args:
            layer: the instruction's base name.
        """
        method, values = self._method, instruction.values
        if not self._is_straight:
            return {}, {}
        if instruction.kind == "DelegateCall":
            inputs = len(method.delegates[instruction.operator].payload.inputs)
            results = dict.fromkeys(range(inputs, len(values)), "")
        elif method.operator(instruction) == VIEW:
            return {}, {}
        else:
            results = results_of(method.operator(instruction), len(values))
        read = [index for place, value in enumerate(values) if place not in results for index in _items(method, value)]
        names = {index: self._read(index, layer) for index in read if self.can_name(index)}
        in_place: dict[int, str] = {}
        for place, part in results.items():
            for index in _items(method, values[place]):
                name = method.names.get(index, "")
                if self.can_name(index):
                    name = self._unique.unique(f"k{layer}{camel(part) if part else ''}")
                    (in_place if index in names else names)[index] = name
                if index in method.offsets:
                    self._write(index, name)
        for index, name in names.items():
            method.names.setdefault(index, name)
        return names, in_place

    def _write(self, index: int, name: str) -> None:
        self._written.append((self._bytes(index), self._method.shapes[index].dtype, name))

    def _read(self, index: int, layer: str) -> str:
        """Returns the name of the contents at a tensor's address: a written tensor, or a part of it."""
        dtype, place = self._method.shapes[index].dtype, self._bytes(index)
        count = len(self._written)
        while count > 0:
            there, of_dtype, name = self._written[count - 1]
            if there.start < place.stop and place.start < there.stop:
                if (there, of_dtype) == (place, dtype):
                    return name
                break
            count -= 1
        # Scratch memory belongs to one layer; a part stays the same until it is overwritten.
        if dtype == "BYTE" or self._parts.get(index, (-1, ""))[0] != count:
            name = self._unique.unique(f"k{layer}{'Scratch' if dtype == 'BYTE' else 'Input'}")
            self._parts[index] = (count, name)
        return self._parts[index][1]

    def _bytes(self, index: int) -> range:
        start = self._method.offsets[index]
        return range(start, start + self._method.nbytes(index))


def _recurrent_layers(method: Method, calls: Sequence[tuple[Instruction, str, str]]) -> dict[int, str]:
    """Returns suffixes of parameter names, such as `_l1_reverse`, for modules with several int8 recurrent layers."""
    directions: dict[str, list[tuple[int, bool]]] = {}
    for place, (instruction, operator, module) in enumerate(calls):
        position = QUANTIZED_RECURRENT.get(operator.partition(".")[0])
        if position is not None and module:
            reverse = bool(method.value(instruction.values[position]).val.bool_val)
            directions.setdefault(module, []).append((place, reverse))
    return {
        place: f"_l{sum(other == reverse for _, other in found[:number])}{'_reverse' * reverse}"
        for found in directions.values()
        if len(found) > 1
        for number, (place, reverse) in enumerate(found)
    }


def _name_constants(
    method: Method, arrays: Names, instruction: Instruction, operator: str, module: str, layer: str, suffix: str
) -> None:
    """Names the constants of a call that have no name yet, and records their readers.

    Args:
        module: the module that calls the operator.
        layer: the same, or with the operator's name, if it calls several.
        suffix: the suffix of the constants' names, if the module has others with the same name.
    """
    flat = [index for value in instruction.values for index in _items(method, value)]
    positions = [i for i, index in enumerate(flat) if index >= 0 and is_constant(method.value(index))]
    base = operator.partition(".")[0]
    for position in positions:
        index = flat[position]
        if index not in method.shapes:
            continue
        buffer = method.value(index).val.data_buffer_idx
        own = method.parameters.get(index) or _recurrent_bias(method, base, position, flat)
        if own:
            wanted = parameter_name(own)
        elif is_role(base, position):
            wanted = f"{snake(module)}_{role_of(base, position, positions)}{suffix}"
        else:
            wanted = f"{snake(layer)}_{role_of(base, position, positions)}"
        if buffer not in method.constants:
            method.constants[buffer] = arrays.unique(wanted)
        users = method.users.setdefault(buffer, [])
        # Equal constants are merged and have the name of the first.
        is_own = bool(own) and ("." not in own or own.startswith(f"{module}."))
        users += [user for user in dict.fromkeys([own or module, own if is_own else module]) if user not in users]


def _recurrent_bias(method: Method, operator: str, position: int, flat: Sequence[int]) -> str:
    """Returns the name of the sum of a recurrent layer's two biases, in the style of its weights; empty for other
    constants.
    """
    if operator not in RECURRENT or role_of(operator, position, [position]) != "bias":
        return ""
    # The weights of the input, weight_ih_l0, are two arguments before.
    path, dot, weight = method.parameters.get(flat[position - 2], "").rpartition(".")
    return f"{path}{dot}{weight.replace('weight_ih', 'bias')}" if weight.startswith("weight_ih") else ""


def _argument_kind(method: Method, index: int) -> str:
    """Describes a tensor that no operator has written: state, scratch memory, or another shape of present contents."""
    if method.value(index).val.data_buffer_idx != 0 or any(
        instruction.kind == "KernelCall"
        and method.operator(instruction).partition(".")[0] == "aten::copy_"
        and instruction.values[0] == index
        for instruction in method.layout.code
    ):
        return "state"
    return "scratch" if method.shapes[index].dtype == "BYTE" else "input"


def _items(method: Method, index: int) -> list[int]:
    value = method.value(index)
    return elements(value) if kind_of(value) in ("TensorList", "OptionalTensorList") else [index]
