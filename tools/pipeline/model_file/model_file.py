"""Loads a model file: the Python file in which a user describes a PyTorch model.

* `model() -> torch.nn.Module`: required; in evaluation mode.
* `example_inputs() -> tuple | dict`: required; the arguments of one call: tensors, also in dicts, tuples and lists, or
  a dict of keywords.
* `train() -> torch.nn.Module`: optional; the module of model(), trained.
* `calibration_inputs() -> Iterable[tuple[torch.Tensor, ...]]`: optional; for quantization, each like example_inputs().
* `method_inputs() -> dict[str, tuple[torch.Tensor, ...]]`: optional; other methods of the module, with example inputs.
* `dynamic_shapes() -> dict | tuple`: optional; sizes that vary, in the format of torch.export.
* `evaluation_set() -> tuple[list[tuple[torch.Tensor, ...]], torch.Tensor]`: optional; inputs and integer labels.
* `labels() -> list[str]`: optional; the names of the classes, in the order of the output's elements.

A file that describes several models has `entries() -> dict[str, object]` instead: each value has these functions.
"""

import contextlib
import copy
import functools
import importlib.util
import inspect
import os
import random
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numpy
import torch
from torch.utils._pytree import tree_leaves

from tools.pipeline.model_file.call import Call, read_call
from tools.pipeline.model_file.describe import describe
from tools.pipeline.model_file.exported import loading_data_only
from tools.pipeline.model_file.weights import write_dense_weights
from tools.quiet.console import UserError
from tools.quiet.troubleshooting import more_about

# PyTorch's optimizers import its compiler, whose folder for caches tools/pipeline/export/__init__.py is about.
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", "/proc")

# An action only sees its declared inputs in the workspace.
_IN_DATA = "Is {file!r} in `data` of the target?"


_Result = TypeVar("_Result")


class ModelFile:
    """A loaded model file. Each method calls the user's function and checks its result.

    Args:
      path: the file.
      folders: the folders that it imports from, besides its own folder and the workspace.
      entry: the key in entries() of the model; empty: the file itself describes it.
      advice: advice about a missing `{file}` that its functions read.

    Every method raises UserError when the function is missing, fails, or returns an invalid result.
    """

    def __init__(self, path: Path, folders: Iterable[Path] = (), entry: str = "", advice: str = _IN_DATA) -> None:
        # Appended, so that they can't replace an installed module.
        sys.path += [str(folder.absolute()) for folder in folders]
        self.path = path
        self._advice = advice
        # The object that has the functions.
        self.module: object = _import_file(path)
        if entry:
            self.module = self._entry(entry)

    def models(self) -> dict[str, "ModelFile"]:
        """Returns each model that the file describes by its key in entries(); the file itself by an empty one if it
        describes one model.
        """
        if self.has("model") or not self.has("entries"):
            return {"": self}
        found = {}
        for name, described in sorted(self._entries()[0].items()):
            found[name] = copy.copy(self)
            found[name].module = described
        return found

    def _entries(self) -> tuple[dict[str, object], str]:
        entries, place = self._call("entries")
        if (
            not isinstance(entries, dict)
            or not entries
            or not all(isinstance(key, str) for key in entries)
            or any(isinstance(value, torch.nn.Module) for value in entries.values())
        ):
            raise UserError(
                f"{place}: entries() must return a dict of names to models, objects that have model() and "
                f"example_inputs(), not {describe(entries)}."
            )
        return entries, place

    def _entry(self, name: str) -> object:
        entries, place = self._entries()
        if name not in entries:
            raise UserError(f"{place}: entries() has no {name!r}; set entry to one of {', '.join(sorted(entries))}.")
        return entries[name]

    def has(self, function: str) -> bool:
        """Whether the file defines `function`."""
        return hasattr(self.module, function)

    def model(self) -> torch.nn.Module:
        """Returns the user's module, untrained, in evaluation mode."""
        return self._checked_module("model")

    def trained_model(self) -> torch.nn.Module:
        """Returns the result of the user's train()."""
        return self._checked_module("train")

    def example_call(self, method: str = "forward") -> Call:
        """Returns the call of the module, or of another method of it, by the user's example."""
        if method == "forward":
            inputs, place = self._call("example_inputs")
            return read_call(inputs, f"{place}: example_inputs()")
        inputs, place = self._call("method_inputs")
        if not isinstance(inputs, dict) or method not in inputs:
            given = f"one for {', '.join(map(str, inputs))}" if isinstance(inputs, dict) else describe(inputs)
            raise UserError(
                f"{place}: method_inputs() must return a dict with an entry for the method {method!r}, not {given}."
            )
        return read_call(inputs[method], f"{place}: method_inputs(): {method!r}")

    def example_inputs(self) -> tuple[torch.Tensor, ...]:
        """Returns the tensors of one call of the model, including a batch dimension if the model has one."""
        return self.example_call().tensors

    def dynamic_shapes(self) -> Any:
        """Returns the input sizes that vary, in the format of `torch.export.export(dynamic_shapes=)`, or None."""
        return self._call("dynamic_shapes")[0] if self.has("dynamic_shapes") else None

    def calibration_inputs(self) -> list[tuple[torch.Tensor, ...]]:
        """Returns inputs that cover the range of real ones, shaped like example_inputs(), without NaN and infinity."""
        # A generator reads its files here.
        samples, place = self._call(
            "calibration_inputs", lambda result: list(result) if _is_sequence(result) else result
        )
        what = f"{place}: calibration_inputs()"
        if not isinstance(samples, list):
            raise UserError(f"{what} must return input tuples, not {describe(samples)}.")
        if not samples:
            raise UserError(f"{what} returned no samples; it must give at least one tuple of tensors.")
        samples = self._checked_samples(samples, what)
        for index, sample in enumerate(samples):
            for position, tensor in enumerate(sample):
                if tensor.is_floating_point() and not torch.isfinite(tensor).all():
                    raise UserError(f"{what}: sample {index}: tensor {position} holds NaN or infinity.")
        return samples

    def evaluation_set(self) -> tuple[list[tuple[torch.Tensor, ...]], torch.Tensor]:
        """Returns inputs (one tuple per sample, shaped like example_inputs()) and integer labels (shape [samples])."""
        result, place = self._call("evaluation_set")
        what = f"{place}: evaluation_set()"
        if not isinstance(result, tuple) or len(result) != 2:
            raise UserError(
                f"{what} must return a pair (list of input tuples, tensor of labels), not {describe(result)}."
            )
        samples, labels = result
        if not isinstance(samples, list) or not samples:
            raise UserError(
                f"{what}: the inputs must be a list of at least one tuple of tensors, not {describe(samples)}."
            )
        samples = self._checked_samples(samples, what)
        if not isinstance(labels, torch.Tensor) or labels.is_floating_point() or labels.dim() != 1:
            raise UserError(
                f"{what}: the labels must be a tensor of integers with one dimension, not {describe(labels)}."
            )
        if len(labels) != len(samples):
            raise UserError(f"{what} returned {len(samples)} inputs but {len(labels)} labels.")
        return samples, labels

    def labels(self) -> list[str]:
        """Returns the names of the model's classes; empty if the file has none."""
        if not self.has("labels"):
            return []
        result, place = self._call("labels")
        what = f"{place}: labels()"
        if not isinstance(result, list | tuple) or not result:
            raise UserError(f"{what} must return a list with the name of each class, not {describe(result)}.")
        for index, label in enumerate(result):
            if not isinstance(label, str) or not label.isprintable() or not label:
                raise UserError(f"{what}: label {index} must be text of one line, not {label!r}.")
        return list(result)

    def place_of(self, error: BaseException) -> str:
        """Returns `file:line` of the innermost line of the user's code in `error`'s traceback, or the model file."""
        return _place(self.path, error)

    def _hint(self, function: str) -> str:
        """Advises on a missing function where the file describes several models, or has a module alone."""
        if not callable(getattr(self.module, "entries", None)):
            # An entry of several models is no module.
            kinds = [
                name
                for name, value in getattr(self.module, "__dict__", {}).items()
                if isinstance(value, type)
                if issubclass(value, torch.nn.Module) and value.__module__ == getattr(self.module, "__name__", "")
            ]
            if kinds and function == "model":
                return f" For the class {kinds[-1]} it is `def model(): return {kinds[-1]}().eval()`: docs/models.md."
            return ""
        return f" It describes several models: set entry to one of {', '.join(sorted(self._call('entries')[0]))}."

    def _checked_samples(self, samples: list[Any], what: str) -> list[tuple[torch.Tensor, ...]]:
        """Returns the tensors of each sample; raises UserError unless it has the structure of example_inputs()."""
        call = self.example_call()
        checked = []
        for index, sample in enumerate(samples):
            if call.is_flat:
                read_call(sample, f"{what}: sample {index}")
            try:
                tensors = call.tensors_of(sample)
            except ValueError:
                tensors = ()
            if [(t.shape, t.dtype) for t in tensors] != [(t.shape, t.dtype) for t in call.tensors]:
                raise UserError(
                    f"{what}: sample {index} is {describe(sample)}, example_inputs() is {describe(call.example)}; "
                    "every sample must have the shapes and dtypes of example_inputs()."
                )
            checked.append(tuple(tensor.contiguous() for tensor in tensors))
        return checked

    def _checked_module(self, function: str) -> torch.nn.Module:
        with _lines_noted(self.path):
            module, place = self._call(function)
        if isinstance(module, torch.export.ExportedProgram):
            module = module.module()
        # The result of torch.compile() runs its original module in eager mode.
        module = getattr(module, "_orig_mod", module)
        if not isinstance(module, torch.nn.Module):
            hint = " Has it a `return`?" if module is None else ""
            if isinstance(module, type):
                hint = f" Write {module.__name__}()."
            elif inspect.isroutine(module):
                hint = " Make it the forward() of a class of torch.nn.Module."
            elif isinstance(module, (tuple, list)):
                hint = " Return the module alone."
            elif isinstance(module, dict) and any(isinstance(value, torch.Tensor) for value in tree_leaves(module)):
                hint = (
                    " A state dict holds the weights of a module alone: make the module, give them to its "
                    "load_state_dict(), and return it."
                )
            raise UserError(f"{place}: {function}() must return a torch.nn.Module, not {describe(module)}.{hint}")
        if isinstance(module, torch.jit.ScriptModule):
            raise UserError(
                f"{place}: {function}() returned a TorchScript module, which torch.export cannot capture. Export the "
                "module that it was made of where that is, to a .pt2 file: "
                'torch.export.save(torch.export.export(module, inputs), "model.pt2"); list that in `data` and return '
                'torch.export.load("path/to/model.pt2").'
            )
        scripted = (name for name, inner in module.named_modules() if isinstance(inner, torch.jit.ScriptModule))
        if name := next(scripted, None):
            raise UserError(
                f"{place}: {function}() returned a module whose {name} is a TorchScript module, which torch.export "
                "cannot capture; leave out torch.jit.script() and torch.jit.trace()."
            )
        # A graph from torch.export has a single behaviour, and cannot be switched to evaluation mode.
        if module.training and function == "model" and not isinstance(module, torch.fx.GraphModule):
            raise UserError(
                f"{place}: {function}() returned a module in training mode; call .eval() on it before returning it."
            )
        write_dense_weights(module, f"{place}: {function}()")
        _forget_gradients(module)
        return module

    def _call(self, function: str, finish: Callable[[Any], Any] = lambda result: result) -> tuple[Any, str]:
        """Returns the function's result, processed by `finish`, and the location (`file:line`) of its definition."""
        callee: Callable[[], Any] | None = getattr(self.module, function, None)
        if callee is not None and (isinstance(callee, torch.nn.Module) or not callable(callee)):
            raise UserError(
                f"{self.path}: {function} must be a function, not {describe(callee)}: write `def {function}():`, which "
                "returns it."
            )
        if callee is None:
            raise UserError(
                f"{self.path}: there is no function {function}(); a model file must define it.{self._hint(function)}"
                f"{more_about('NoFunction')}"
            )
        code = getattr(inspect.unwrap(callee), "__code__", None)
        place = f"{self.path}:{code.co_firstlineno}" if code and code.co_filename == str(self.path) else str(self.path)
        try:
            result = _where_its_files_are(self.path, lambda: finish(callee()))
            _run_eagerly()
            return result, place
        except UserError:
            raise
        except SystemExit as error:
            raise UserError(_ended(self.place_of(error), error)) from error
        except Exception as error:
            missing = error.filename if isinstance(error, FileNotFoundError) else None
            hint = f". {self._advice.format(file=str(missing))}" if missing else ""
            if known := hint_of(error):
                hint = known
            elif str(error).startswith(f"{function}() missing"):
                hint = ". It is called without arguments: give them defaults."
            elif type(error).__name__ == "UnpicklingError" and re.search(_OBJECTS, str(error), re.DOTALL):
                hint = (
                    ". It holds objects, such as a whole module, and no weights alone: write torch.load(..., "
                    "weights_only=False) where you trust it, with the classes of what it holds imported."
                )
            elif not missing and _is_from_loading(error):
                hint = (
                    ". If the file is damaged, cut short, or of a newer PyTorch, save or download it again; this is "
                    f"PyTorch {torch.__version__.partition('+')[0]}."
                )
            # torch.load() says of any damaged file that it likely loads with weights_only=False.
            reason = brief(error).partition(". In PyTorch 2.6,")[0].rstrip(". ")
            raise UserError(f"{self.place_of(error)}: {function}() failed: {reason}{hint}") from error


# torch.load()'s messages about what no state dict has.
_OBJECTS = "eights.*(GLOBAL|unrecognized function|unsupported class|Can only (build|create))"
# The functions that load files: PyTorch's, that of exported.py, and safetensors', which new_model writes.
_LOADING = re.compile(r"torch/(serialization|export/__init__)\.py:load|:load_file|exported\.py:_checked")


def _is_from_loading(error: Exception) -> bool:
    # A class that a pickled module needs is missing in the build, not in the file.
    if isinstance(error, ImportError) or "Can't get attribute" in str(error):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    return any(_LOADING.search(f"{frame.filename}:{frame.name}") for frame in frames)


def _is_sequence(result: object) -> bool:
    return isinstance(result, Iterable) and not isinstance(result, torch.Tensor)


def _where_its_files_are(path: Path, run: Callable[[], _Result]) -> _Result:
    """Runs the user's code, with relative paths in the current directory or else in the model file's folder.

    If a file is missing, the code runs again, with the same random numbers.
    """
    begun = random.getstate(), numpy.random.get_state(), torch.get_rng_state()
    try:
        with _kept_directory(), loading_data_only():
            return run()
    except Exception as error:
        if not _is_missing_file(error):
            raise
        first = error
    random.setstate(begun[0])
    numpy.random.set_state(begun[1])
    torch.set_rng_state(begun[2])
    try:
        with _kept_directory(), loading_data_only():
            os.chdir(path.parent)
            return run()
    except Exception as error:
        raise (first if _is_missing_file(error) else error) from None


def _is_missing_file(error: Exception) -> bool:
    # Some libraries raise other classes for missing files, and those in C++ may find a file that the kernel refuses.
    texts = ("No such file or directory", "does not exist", "errno 2", "open file failed", "Permission denied")
    return isinstance(error, FileNotFoundError) or any(text in str(error) for text in texts)


def _run_eagerly() -> None:
    """Makes functions from torch.compile() run in eager mode, which needs no C++ compiler.

    Does nothing unless the model file has imported PyTorch's compiler, which takes seconds.
    """
    if "torch._dynamo" in sys.modules:
        torch.compiler.set_stance("force_eager")


def hint_of(error: BaseException) -> str:
    """Returns what to do about an error that models have which were trained elsewhere, or nothing."""
    if re.search("CUDA|NVIDIA", str(error)):
        return ". There is no GPU here: leave out .cuda() and device, and give torch.load() map_location='cpu'."
    if "before Module.__init__() call" in str(error):
        return ". Begin the __init__() of your class with super().__init__()."
    if wrapper := re.search(r'Unexpected key\(s\) in state_dict: "(module\.|_orig_mod\.)', str(error)):
        return (
            f". The weights were saved of a module in another one: load {{key.removeprefix({wrapper[1]!r}): value for "
            "key, value in weights.items()}."
        )
    if "Missing key(s) in state_dict" in str(error) and "Unexpected key(s)" in str(error):
        return ". They are of another module, or the file is a checkpoint that has them in an entry: print its keys()."
    return ""


def brief(error: BaseException) -> str:
    """Formats an exception in one line, which goes on after a colon."""
    text = re.sub(r":\s*\n\s*", ": ", str(error).strip(), count=1).partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UserError(f"{path}: there is no such model file.")
    # Avoids __pycache__ in the user's folders.
    sys.dont_write_bytecode = True
    # Modules in the model file's folder and in the workspace can be imported, but can't replace an installed one.
    own = [str(path.parent.absolute()), str(Path.cwd())]
    sys.path += own
    sys.meta_path.append(_InFoldersOfPackages(own))
    name = f"_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path}: a model file must be a Python file, named *.py.")
    module = importlib.util.module_from_spec(spec)
    # Relative imports of the file find its folder, as if it were a package.
    package = ModuleType("_model_files")
    package.__path__ = [str(path.parent.absolute())]
    sys.modules[package.__name__] = package
    module.__package__ = package.__name__
    # dataclasses and torch.export look up the module of a class by its name.
    sys.modules[name] = module
    # Frames carry the path as given, so that no absolute path gets into any output.
    source = path.read_bytes()
    try:
        _where_its_files_are(path, lambda: exec(compile(source, str(path), "exec"), module.__dict__))
    except SyntaxError as error:
        which = (
            f"Python {sys.version_info.major}.{sys.version_info.minor} runs model files, and lacks later syntax; "
            "third_party.python in MODULE.bazel chooses another (docs/build.md)"
        )
        raise UserError(f"{error.filename or path}:{error.lineno}: {error.msg}. {which}.") from error
    except ImportError as error:
        place = _place(path, error)
        hint = f" Is {error.name!r} among the model's deps?" if error.name else ""
        raise UserError(f"{place}: {brief(error)}.{hint}") from error
    except UserError:
        raise
    except SystemExit as error:
        raise UserError(_ended(_place(path, error), error)) from error
    except Exception as error:
        place = _place(path, error)
        raise UserError(f"{place}: importing the model file failed: {brief(error)}") from error
    return module


class _InFoldersOfPackages(MetaPathFinder):
    """Finds modules in folders that share their name with an installed package, such as `tests` or `tools`, if it lacks
    them.

    Args:
      folders: the parents of these folders.
    """

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = folders

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        """Returns the spec of the module in the first folder that has it."""
        package, _, _ = fullname.rpartition(".")
        if not package:
            return None
        return PathFinder.find_spec(fullname, [str(Path(each, *package.split("."))) for each in self._folders])


@contextlib.contextmanager
def _kept_directory() -> Iterator[None]:
    """Restores the working directory, which the user's code may change, so that the tools' output paths stay valid."""
    before = Path.cwd()
    try:
        yield
    finally:
        os.chdir(before)


def _ended(place: str, error: SystemExit) -> str:
    return f"{place}: sys.exit({error.code!r}) in a model file ends only the export; raise an error that says why."


def innermost_place(model_file: Path, frames: Iterable[tuple[str, int | None]]) -> str:
    """Returns `file:line` of the last (file name, line) in the user's code, or an empty string."""
    for name, line in reversed(list(frames)):
        shown = _user_file(model_file, name)
        if shown:
            return f"{shown}:{line}"
    return ""


def _place(model_file: Path, error: BaseException) -> str:
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    return innermost_place(model_file, frames) or str(model_file)


@functools.cache
def _user_file(model_file: Path, name: str) -> str:
    """Returns the name by which to show a user's file from a traceback; empty for other files.

    User files are the model file, files in its folder and in the workspace, but not Python, its packages and this tool.
    """
    if name == str(model_file):
        return name
    file = Path(name)
    if not file.is_absolute() or any(file.is_relative_to(folder) for folder in _FOREIGN):
        return ""
    folder = model_file.parent.absolute()
    if file.is_relative_to(folder):
        return str(model_file.parent / file.relative_to(folder))
    if not file.is_relative_to(Path.cwd()):
        return ""
    # In an action, packages of the user's own are in the workspace, below `external`.
    inside = file.relative_to(Path.cwd())
    return "" if inside.parts[0] == "external" else str(inside)


# Folders of packages, Python's own modules, this project's tools.
_FOREIGN = (
    *(Path(entry) for entry in sys.path if Path(entry).name == "site-packages"),
    Path(traceback.__file__).parent,
    Path(__file__).parents[2],
)


def has_user_code(model_file: Path, module: torch.nn.Module) -> bool:
    """Whether a module's forward() is the user's, and not of PyTorch or another package."""
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return code is not None and bool(_user_file(model_file, code.co_filename))


# The attribute of a module for where the user's code makes it, as `File "net.py", line 5`.
MADE_AT = "_torch_fusion_made_at"


@contextlib.contextmanager
def _lines_noted(model_file: Path) -> Iterator[None]:
    """Notes in each module that is made where the user's code makes it, for those that no line of it calls, such as
    those in an nn.Sequential.
    """
    original = torch.nn.Module.__init__

    def noting(self: torch.nn.Module, *arguments: Any, **keywords: Any) -> None:
        original(self, *arguments, **keywords)
        frame = sys._getframe(1)
        while frame.f_back is not None and not _user_file(model_file, frame.f_code.co_filename):
            frame = frame.f_back
        self.__dict__[MADE_AT] = f'File "{frame.f_code.co_filename}", line {frame.f_lineno}'

    torch.nn.Module.__init__ = noting
    try:
        yield
    finally:
        torch.nn.Module.__init__ = original


def _forget_gradients(module: torch.nn.Module) -> None:
    """Detaches tensors that modules computed for themselves: PyTorch can't copy tensors with a gradient history.

    torch.nn.utils.weight_norm and spectral_norm keep such weights, which every call recomputes.
    """
    for part in module.modules():
        for name, value in vars(part).items():
            if isinstance(value, torch.Tensor) and not value.is_leaf:
                vars(part)[name] = value.detach()
