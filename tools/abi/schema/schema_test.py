import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.abi.schema import cpp, python
from tools.abi.schema.schema import Schema, SchemaError, parse

PROGRAM_FBS = Path(os.environ["PROGRAM_FBS"])


def _parse(tmp_path: Path, text: str) -> Schema:
    path = tmp_path / "test.fbs"
    path.write_text(text)
    return parse(path)


def test_program_schema() -> None:
    schema = parse(PROGRAM_FBS)
    assert (schema.namespace, schema.file_identifier, schema.root_type) == ("executorch_flatbuffer", "ET12", "Program")
    assert schema.enums["ScalarType"].values["BFLOAT16"] == 15
    assert schema.enums["KernelTypes"].is_union
    assert schema.enums["KernelTypes"].values["Tensor"] == 5
    slots = {field.name: field.slot for field in schema.tables["Tensor"].fields}
    assert slots["sizes"] == 2 and slots["extra_tensor_info"] == 9
    # A union takes two slots, its type's first.
    assert schema.tables["EValue"].fields[0].slot == 1


def test_generated_code(tmp_path: Path) -> None:
    schema = _parse(
        tmp_path,
        """
        namespace test; // comment
        /* another */
        enum Kind : byte { A = -1, B, C = 5 }
        table Leaf { flag: bool = true; kind: Kind = C; items: [long]; }
        union Any { Leaf }
        table Root (attribute: "x") { value: Any; name: string; bytes: [ubyte] (force_align: 16); leaves: [Leaf]; }
        root_type Root;
        """,
    )
    header = cpp.generate(schema)
    assert "bool flag() const { return scalar<bool>(VT_FLAG, true); }" in header
    assert "static_cast<Kind>(5)" in header
    assert "static constexpr uint32_t VT_VALUE_TYPE = 4;" in header
    assert "static constexpr uint32_t VT_VALUE = 6;" in header
    assert "const flatbuffers::Vector<flatbuffers::Offset<Leaf>>* leaves() const" in header
    names: dict = {"__name__": "generated"}
    module = tmp_path / "generated.py"
    module.write_text(python.generate(schema))
    code = compile(module.read_text(), str(module), "exec")
    sys.modules["generated"] = type(sys)("generated")
    exec(code, names)
    assert names["Kind"].C == 5
    assert names["TABLES"]["Leaf"][1][0] == ("flag", 0, "?", False, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("table Root { x: int; }", "root_type '' is not a table"),
        ("table Root { x: nothing; } root_type Root;", "Root.x has unknown type nothing"),
        ("struct S { x: int; }", "'struct' is not supported"),
        ("table Root { x int; } root_type Root;", "test.fbs:1: expected ':', found 'int'"),
        ("table Root {", "test.fbs:1: the file ends"),
        ("\n\n@", "test.fbs:3: unexpected character '@'"),
        ('include "other.fbs";', "included file other.fbs not found"),
    ],
)
def test_errors(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SchemaError) as error:
        _parse(tmp_path, text)
    assert message in str(error.value)


def test_command_line(tmp_path: Path) -> None:
    bad = tmp_path / "bad.fbs"
    bad.write_text("nonsense")
    command = [sys.executable, "-m", "tools.quiet.start", "schema", "tools.abi.schema", "--schema", str(bad)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "bad.fbs:1" in result.stderr and "Traceback" not in result.stderr
