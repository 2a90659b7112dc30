"""Tests that the compilation database names the files that the user edits, in a form that clangd understands."""

from pathlib import Path

from tools.commands.compile_commands.compile_commands import Roots, compile_commands

_ROOTS = Roots(Path("/w"), Path("/base/external"), Path("/base/out"))


def action(source: str, *options: str) -> dict[str, list[str]]:
    return {"arguments": ["external/arm/tools/gcc", *options, "-MD", "-MF", "a.d", "-c", source, "-o", "a.o"]}


def test_paths_lead_to_the_workspace_and_to_what_was_fetched() -> None:
    options = ["-iquote", ".", "-iquote", "external/x", "-isystem", "external/x/include"]
    options += ["-Ibazel-out/k8/bin", "-DA=b/c"]
    [entry] = compile_commands({"actions": [action("runtime/a.cpp", *options)]}, _ROOTS)
    assert entry["directory"] == "/w"
    assert entry["file"] == "runtime/a.cpp"
    assert entry["arguments"] == [
        *["/base/external/arm/tools/gcc", "-iquote", ".", "-iquote", "/base/external/x"],
        *["-isystem", "/base/external/x/include", "-I/base/out/k8/bin", "-DA=b/c", "-c", "runtime/a.cpp"],
    ]


def test_generated_sources_are_found() -> None:
    [entry] = compile_commands({"actions": [action("bazel-out/k8/bin/registry.cpp")]}, _ROOTS)
    assert entry["file"] == "/base/out/k8/bin/registry.cpp"


def test_what_only_gcc_knows_is_left_out() -> None:
    options = ["-flto", "-fno-ipa-modref", "--specs=nano.specs", "-mcpu=cortex-m4", "-Wall"]
    [entry] = compile_commands({"actions": [action("a.cpp", *options)]}, _ROOTS)
    assert entry["arguments"][1:-2] == ["-mcpu=cortex-m4", "-Wall"]


def test_a_file_compiled_for_two_cores_has_one_entry() -> None:
    actions = [action("b.cpp", "-mcpu=cortex-m55"), action("b.cpp", "-mcpu=cortex-m4"), action("a.cpp")]
    entries = compile_commands({"actions": actions}, _ROOTS)
    first_arguments = [(entry["file"], entry["arguments"][1]) for entry in entries]
    assert first_arguments == [("a.cpp", "-c"), ("b.cpp", "-mcpu=cortex-m4")]


def test_the_board_comes_before_this_machine() -> None:
    host = {"arguments": ["/usr/bin/gcc", "-c", "a.cpp"]}
    [entry] = compile_commands({"actions": [host, action("a.cpp")]}, _ROOTS)
    assert entry["arguments"][0] == "/base/external/arm/tools/gcc"


def test_what_compiles_nothing_is_left_out() -> None:
    assert compile_commands({"actions": [{"arguments": ["gcc", "-shared"]}, {}]}, _ROOTS) == []
    assert compile_commands({}, _ROOTS) == []
