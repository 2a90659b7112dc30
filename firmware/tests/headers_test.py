"""An application in C++ that calls its models' functions, but whose image loads programs, ends in what to change."""

import os
import subprocess
from pathlib import Path

import pytest

_ADVICE = 'the torch_firmware of this application needs engine = "compiled"'
_LIBRARY = "struct sine_model_t {};"


@pytest.mark.parametrize(
    ("template", "header", "code", "library", "refused"),
    [
        ("loaded_model", "model_program.h", "sine_model_t model;", "", True),
        ("loaded_model", "model_program.h", "int size = model_program::kTempArenaSize;", "", False),
        ("loaded_model", "model_program.h", '#include "sine.h"\nsine_model_t model;', "sine.h", False),
        ("loaded_class", "sine.hpp", "sine::Model model;", "", True),
        ("loaded_class", "sine.hpp", "sine_model_t model;", "sine.hpp", False),
    ],
)
def test_an_application_is_told_which_engine_it_needs(tmp_path, template, header, code, library, refused) -> None:
    templates = {Path(path).name: Path(path).read_text() for path in os.environ["TEMPLATES"].split()}
    text = templates[f"{template}.h.in"].replace("{includes}", '#include "sine_pte.h"').replace("{name}", "sine")
    files = {header: text, "image_settings.h": "", "app.cpp": f'#include "{header}"\n{code}\n'}
    files["sine_pte.h"] = "namespace sine_pte { constexpr int kTempArenaSize = 4; }"
    (tmp_path / "library").mkdir()
    for path, content in (files | ({f"library/{library}": _LIBRARY} if library else {})).items():
        (tmp_path / path).write_text(content)
    gcc = next(path for path in os.environ["TOOLCHAIN"].split() if path.endswith("/tools/gcc"))
    done = subprocess.run(
        [gcc, "-std=c++17", "-fsyntax-only", f"-I{tmp_path}", f"-I{tmp_path}/library", tmp_path / "app.cpp"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode != 0) == refused, done.stderr
    errors = [line.replace("\\", "") for line in done.stderr.splitlines() if "error: " in line]
    assert all(_ADVICE in error for error in errors[:1])
