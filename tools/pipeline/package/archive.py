"""Compiles a package's sources without this build's flags, as its user would, and measures its models' sizes."""

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.pipeline.report.stack import function_bound
from tools.quiet.console import UserError

_WARNINGS = ("-Wall", "-Wextra", "-Werror")
_C = ("-std=c11",)
_CPP = ("-std=c++17", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-Wno-psabi")
# The functions of a model's API.
_FUNCTIONS = ("init", "reset", "run", "input", "output", "set_input", "get_output")


@dataclass(frozen=True)
class Toolchain:
    """A cross compiler.

    Attributes:
        gcc: its driver.
        ar: its archiver.
        size: its `size`.
        flags: the options for the core and the float ABI.
        includes: folders of headers besides its own.
    """

    gcc: Path
    ar: Path
    size: Path
    flags: tuple[str, ...]
    includes: tuple[Path, ...] = ()

    def compile(self, folder: Path, source: Path, output: Path) -> None:
        """Compiles a source of a package; a warning is an error."""
        language = _CPP if source.suffix == ".cpp" else _C
        system = [argument for include in self.includes for argument in ("-isystem", str(include))]
        public = [folder / name for name in ("include", "src") if (folder / name).is_dir()]
        self.run(
            self.gcc,
            *(*self.flags, *language, *_WARNINGS, "-Os", "-ffunction-sections", "-fdata-sections"),
            *(*system, *(f"-I{include}" for include in public)),
            # The archive must not contain paths of this machine.
            f"-ffile-prefix-map={folder}/=",
            *("-c", str(source), "-o", str(output)),
        )

    def run(self, tool: Path, *arguments: str) -> str:
        """Runs a tool and returns its output.

        Raises:
            UserError: it fails.
        """
        result = subprocess.run([tool, *arguments], capture_output=True, text=True, check=False)
        if result.returncode:
            raise UserError(f"{tool.name} {' '.join(self.flags)} failed:\n{result.stdout}{result.stderr}")
        return result.stdout


def archive(toolchain: Toolchain, folder: Path, output: Path) -> None:
    """Compiles all sources of a package into an archive with reproducible bytes.

    Raises:
        UserError: the compiler prints a warning or an error.
    """
    sources = sorted(path for path in (folder / "src").rglob("*") if path.suffix in (".c", ".cpp"))
    with tempfile.TemporaryDirectory() as work:
        objects = []
        for source in sources:
            name = source.relative_to(folder / "src").as_posix().replace("/", "_")
            objects.append(Path(work) / f"{name}.o")
            toolchain.compile(folder, source, objects[-1])
        toolchain.run(toolchain.ar, "rcsD", str(output), *map(str, objects))


def sizes(toolchain: Toolchain, folder: Path, library: Path, models: Sequence[str]) -> str:
    """Returns lines in the format of folder.sizes_table(): the size of each model in a program, and of all together.

    Args:
        toolchain: the compiler.
        folder: the package.
        library: its archive.
        models: the names of its models.

    Raises:
        UserError: the models can't be linked.
    """
    rows = [(model, [model]) for model in models] + ([("all", [*models])] if len(models) > 1 else [])
    return "".join(f"{name} {_size(toolchain, folder, library, chosen)}\n" for name, chosen in rows)


def _size(toolchain: Toolchain, folder: Path, library: Path, models: Sequence[str]) -> str:
    """Returns `CODE DATA BSS STACK` of a program without start-up code that calls the models; `-` without a bound."""
    with tempfile.TemporaryDirectory() as work:
        source, code, program = (Path(work) / name for name in ("instances.c", "instances.o", "program.elf"))
        instances = "".join(f'#include "{model}.h"\n{model}_model_t {model}_instance;\n' for model in models)
        source.write_text(instances, encoding="utf-8")
        toolchain.compile(folder, source, code)
        roots = [f"{model}_{name}" for model in models for name in ("instance", *_FUNCTIONS)]
        toolchain.run(
            toolchain.gcc,
            *(*toolchain.flags, "--specs=nano.specs", "--specs=nosys.specs", "-nostartfiles"),
            *("-Wl,--gc-sections", "-Wl,--no-warnings", "-Wl,-e,0", *(f"-Wl,-u,{root}" for root in roots)),
            *(str(code), str(library), "-lm", "-o", str(program)),
        )
        code_size, data, bss = toolchain.run(toolchain.size, str(program)).splitlines()[1].split()[:3]
        bounds = [function_bound(program, f"{model}_run") for model in models]
    stack = "-" if any(each.problem for each in bounds) else max(each.bound for each in bounds)
    return f"{code_size} {data} {bss} {stack}"
