"""Tests that a symbol that a release breaks is named, and that one message tells that a release is none."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tools.commands.try_release.__main__ import explain, lost_headers, main
from tools.commands.try_release.checks import Finding, broken_schemas, differing_schemas, other_versions


def test_a_schema_of_another_number_of_arguments_is_named_with_the_kernel_s() -> None:
    schemas = {
        "cortex_m::pad.out": SimpleNamespace(arguments=["input", "pads", "value", "out"]),
        "cortex_m::softmax.out": SimpleNamespace(arguments=["input", "out"]),
    }
    kernels = {
        "cortex_m::pad.out": ("input", "pads", "out"),
        "cortex_m::softmax.out": ("x", "out"),
        "own::op.out": ("x",),
    }
    (finding,) = differing_schemas(schemas, kernels)
    assert (finding.kind, finding.symbol) == ("schema", "cortex_m::pad.out")
    assert "(input, pads, out)" in finding.reason


def test_the_kernels_have_the_arguments_of_the_workspace_s_release() -> None:
    assert list(broken_schemas()) == []


def test_a_finding_is_read_as_it_was_written() -> None:
    finding = Finding("import", "a.b", "ImportError: cannot import")
    assert Finding.from_line(finding.line()) == finding
    assert Finding.from_line(Finding("import", "a.b", "two\nlines").line()).reason == "two lines"


def test_a_header_that_is_gone_is_named_with_a_file_that_includes_it(tmp_path: Path) -> None:
    headers = tmp_path / "include"
    (headers / "executorch").mkdir(parents=True)
    (headers / "executorch/kept.h").touch()
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime/a.h").write_text(
        "#include <executorch/kept.h>\n#include <executorch/gone.h>\n#include <cstdint>\n"
    )
    (finding,) = lost_headers(tmp_path, headers)
    assert finding.symbol == "executorch/gone.h" and finding.reason.startswith("runtime/a.h includes it")


def test_versions_that_the_release_names_and_the_workspace_lacks_are_told() -> None:
    requirements = [
        "torch>=2.13.0a0",
        'ethos-u-vela==5.1.0; extra == "ethos-u"',
        'ai_ml_sdk_model_converter==0.10.0; extra == "vgf"',
        'openvino<2026; extra == "openvino"',
        "pandas>=2.2",
    ]
    installed = {
        "torch": "2.13.0+cpu",
        "ethos-u-vela": "5.2.0",
        "ai-ml-sdk-model-converter": "0.9.0",
        "openvino": "2026.1",
    }
    assert list(other_versions(requirements, installed)) == [
        "the release names ethos-u-vela==5.1.0; checked with 5.2.0",
        "the release names ai_ml_sdk_model_converter==0.10.0; checked with 0.9.0",
    ]


def test_of_pip_s_messages_the_reason_is_told() -> None:
    conflict = (
        "ERROR: Cannot install torch==2.15.0 because these package versions have conflicting dependencies.\n\n"
        "The conflict is caused by:\n    The user requested torch==2.15.0\n"
        "    The user requested (constraint) torch<=2.14.1\n\nTo fix this you could try to:\n"
        "ERROR: ResolutionImpossible: for help visit the documentation\n"
    )
    assert "(constraint) torch<=2.14.1; the constraint is one of pip's configuration" in explain(conflict)
    assert (
        explain("WARNING: a\nERROR: no versions\nERROR: No matching distribution") == "ERROR: No matching distribution"
    )


@pytest.mark.parametrize("text", ["latest", "executorch", "torchao=="])
def test_what_is_no_release_is_refused(capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert main([text]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f'"{text}" is no release' in line and "NAME==VERSION" in line
