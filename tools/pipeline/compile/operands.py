"""Expressions of a method's values in C++, as arguments of calls."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from tools.artifacts.program.program import PLANNED_ALIGNMENT
from tools.pipeline.compile.call import memory_macro, memory_name
from tools.pipeline.compile.constants import Constants, described
from tools.pipeline.compile.layout import elements, is_constant, kind_of
from tools.pipeline.compile.program import Method
from tools.pipeline.compile.text import BREAK, LINE
from tools.pipeline.compile.values import floating, integer, string
from tools.quiet.console import UserError

# These parameters of a source's functions point into the arena.
ELEMENTS, PLACED_TENSORS = "elements", "tensors"


@dataclass(frozen=True)
class Operands:
    """The values of a method.

    Attributes:
        name: of the model.
        method: with the names that values have.
        constants: those that expressions refer to.
        placed: tensors in the arena, by the name of their offset.
        reached: what expressions reach in the arena.
        headers: those that declare what is called.
    """

    name: str
    method: Method
    constants: Constants
    placed: dict[str, int] = field(default_factory=dict)
    reached: set[str] = field(default_factory=set)
    headers: set[str] = field(default_factory=set)

    def named_at(self, place: int) -> Operands:
        """The same with the names that values have where an instruction reads and writes them."""
        return replace(self, method=self.method.named_at(place))

    @cached_property
    def value_place(self) -> dict[int, int]:
        return {index: i for i, index in enumerate(self.method.values)}

    @cached_property
    def kept_place(self) -> dict[int, int]:
        return {index: i for i, index in enumerate(self.method.kept)}

    def tensor(self, index: int, is_out: bool = False) -> str:
        """Returns the expression of a tensor argument."""
        if index in self.value_place:
            return self.kept_value(index)
        if index in self.kept_place:
            return f"*tensors[{self.place_name(index)}]"
        if is_constant(self.method.value(index)):
            self.constants.used[index] = True
            self.constants.shape(self.method.shapes[index])
            return self.method.names[index]
        self.reached.add(PLACED_TENSORS)
        memory = memory_name(self.method, index) or "model"
        return f"tensor_at({memory}, {self.offset(index, is_out)}, {self.constants.shape(self.method.shapes[index])})"

    def offset(self, index: int, is_out: bool = False) -> str:
        """Returns the name of a tensor's offset in the arena; is_out: the name after the instruction writes it."""
        name = self.method.names[index]
        name = self.method.written.get(index, name) if is_out else name
        self.placed.setdefault(name, index)
        return f"{name}Offset"

    def place_name(self, index: int) -> str:
        """Returns the name of the index of a tensor in the instance."""
        return f"{self.method.names[index]}Tensor"

    def kept_value(self, index: int) -> str:
        return f"*values[{self.value_place[index]}]"

    def argument(self, index: int, is_out: bool = False) -> str:
        if index < 0:
            return "None()"
        if index in self.value_place:
            return self.kept_value(index)
        value = self.method.value(index)
        kind = kind_of(value)
        if kind == "Tensor":
            return self.tensor(index, is_out)
        if kind == "Null":
            return "None()"
        if kind == "Int":
            return integer(value.val.int_val)
        if kind == "Bool":
            return "true" if value.val.bool_val else "false"
        if kind == "Double":
            return floating(value.val.double_val, False)
        if kind == "String":
            text = value.val.string_val or ""
            return f"std::string_view({string(text)}, {len(text.encode())})"
        if kind == "BoolList":
            return self.constants.list_of("bool", ["true" if item else "false" for item in value.val.items or []])
        if kind == "DoubleList":
            return self.constants.list_of("double", [floating(item, False) for item in value.val.items or []])
        items = elements(value)
        if kind == "IntList":
            if any(item in self.value_place for item in items):
                numbers = ", ".join(
                    f"integer(context, {self.kept_value(item)})"
                    if item in self.value_place
                    else integer(self.method.value(item).val.int_val)
                    for item in items
                )
                return f"List<int64_t, {len(items)}>{{{{{numbers}}}}}"
            return self.constants.list_of("int64_t", [str(self.method.value(item).val.int_val) for item in items])
        element = {"TensorList": "Tensor", "OptionalTensorList": "std::optional<Tensor>"}.get(kind)
        if element is None:
            raise UserError(f"program {self.method.file.path}: value {index} is of the unknown kind {kind}")
        if not items:
            return f"ArrayRef<{element}>()"
        arguments = list(map(self.argument, items))
        # A long list is broken between its elements.
        space = BREAK if len(", ".join(arguments)) > LINE // 2 else " "
        return f"list<{element}>({f',{space}'.join(arguments)})"

    def remark(self, index: int, name: str) -> str:
        """Returns a literal's name as a comment; tensors and computed values have names of their own."""
        if index >= 0 and (index in self.value_place or "Tensor" in kind_of(self.method.value(index))):
            return ""
        return f" /* {name} */"

    def literal(self, index: int) -> str:
        value = self.method.value(index).val
        kind = kind_of(self.method.value(index))
        if kind == "Int":
            return integer(value.int_val)
        return ("true" if value.bool_val else "false") if kind == "Bool" else floating(value.double_val, False)

    def moved(self, index: int) -> str:
        if index in self.value_place:
            return self.kept_value(index)
        if kind_of(self.method.value(index)) == "Tensor":
            return f"EValue(({self.tensor(index)}).tensor())"
        argument = self.argument(index)
        return "EValue()" if argument == "None()" else f"EValue({argument})"

    def elements(self, index: int) -> str:
        """Returns an expression for the address of a tensor's elements."""
        if is_constant(self.method.value(index)):
            self.constants.used.setdefault(index, False)
            return self.method.constants[self.method.value(index).val.data_buffer_idx]
        if index in self.kept_place:
            return f"tensors[{self.place_name(index)}]->data"
        return self.address(index)

    def address(self, index: int) -> str:
        """Returns an expression for the address of a tensor that is in the arena or in another memory."""
        return f"{memory_name(self.method, index) or 'model->arena'} + {self.offset(index)}"

    def memory_lines(self) -> list[str]:
        """Returns definitions of the model's memories besides the arena of an instance."""
        lines = []
        for name, nbytes in self.method.fusion.memories.items():
            macro = memory_macro(name)
            lines += [
                f"// What lies in {name}, a memory of the board, for the only instance of the model.",
                f"#ifndef {macro}",
                f"#define {macro}",
                "#endif",
                f"alignas({PLANNED_ALIGNMENT}) {macro} unsigned char {name}_arena[{max(nbytes, 1)}];",
                "",
            ]
        return lines

    def place_lines(self) -> list[str]:
        lines = []
        for name, index in self.placed.items():
            shape = self.method.shapes[index]
            nbytes = self.method.nbytes(index)
            count = nbytes * shape.sizes[2] // shape.nbytes if nbytes < shape.nbytes else 0
            rows = f"{count} {'row' if count == 1 else 'rows'} of " if count else ""
            remark = f"{rows}{described(shape)}, {nbytes} bytes"
            lines.append(f"constexpr size_t {name}Offset = {self.method.memory_of(index)[1]}; // {remark}")
        for index, place in self.kept_place.items():
            remark = described(self.method.shapes[index])
            lines.append(f"constexpr size_t {self.place_name(index)} = {place}; // {remark}")
        for index, is_tensor in self.constants.used.items():
            if is_tensor:
                of = self.constants.shape(self.method.shapes[index])
                array_name = self.method.constants[self.method.value(index).val.data_buffer_idx]
                lines.append(f"constexpr TensorData {self.method.names[index]} = {{{of}, {array_name}}};")
        return [*lines, ""] if lines else []

    def access(self) -> list[str]:
        """Returns the functions that access elements in the arena for inner functions, and tensors for outer ones."""
        lines: list[str] = []
        owners = {"the arena": (f"{self.name}_model_t* model", "model->arena")}
        if self.method.memories:
            owners["another memory"] = ("unsigned char* memory", "memory")
        for where, (owner, begin) in owners.items():
            if ELEMENTS in self.reached:
                lines += [
                    f"/// Elements at a place in {where}.",
                    "template <class T>",
                    f"inline T* at({owner}, size_t offset) {{",
                    f"  return static_cast<T*>(static_cast<void*>({begin} + offset));",
                    "}",
                    "",
                ]
            if PLACED_TENSORS in self.reached:
                is_alone = ELEMENTS not in self.reached
                lines += [
                    f"/// The tensor at a place in {where}." if is_alone else "/// The same as a tensor.",
                    "inline TensorData tensor_at(",
                    f"    {owner}, size_t offset, const TensorShape& shape) {{",
                    f"  return {{shape, {begin} + offset}};",
                    "}",
                    "",
                ]
        return lines
