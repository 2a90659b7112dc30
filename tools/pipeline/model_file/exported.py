"""Reads what torch.export.save() wrote as data.

PyTorch's reader runs what such a file may hold: pickles of any objects, compiled code, and Python in place of sizes.
Here a file is checked, and what was checked is written anew, so that PyTorch reads just that.
"""

import ast
import contextlib
import functools
import io
import json
import os
import pickle
import re
import zipfile
from collections.abc import Iterator
from typing import Any

import torch

_WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
# Keys of names of modules that PyTorch imports.
_IMPORTS = {"__enum__", "default_factory_module"}
_EXPRESSION = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Tuple, ast.Name, ast.keyword),
    *(ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
)


@contextlib.contextmanager
def loading_data_only() -> Iterator[None]:
    """Lets torch.export.load() refuse to run code: a .pt2 is data to users."""
    load = torch.export.load

    @functools.wraps(load)
    def load_data(f: Any, **keywords: Any) -> torch.export.ExportedProgram:
        before = os.environ.get(_WEIGHTS_ONLY)
        os.environ[_WEIGHTS_ONLY] = "1"
        try:
            return load(_checked(f), **keywords)
        except pickle.UnpicklingError as error:
            raise ValueError(
                f"{f} has more than tensors, numbers and sizes, and to load that could run any code. Export the module "
                "again, with tensors and numbers as example inputs"
            ) from error
        finally:
            del os.environ[_WEIGHTS_ONLY]
            if before is not None:
                os.environ[_WEIGHTS_ONLY] = before

    torch.export.load = load_data
    try:
        yield
    finally:
        torch.export.load = load


def _checked(file: Any) -> io.BytesIO:
    """Returns a copy of an archive, in which nothing is code.

    Raises:
        UnpicklingError: something is.
    """
    copy = io.BytesIO()
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(copy, "w") as written:
        for name in dict.fromkeys(archive.namelist()):
            content = archive.read(name)
            if "data/aotinductor/" in name.lower():
                raise pickle.UnpicklingError(f"{name} is compiled code")
            if name.lower().endswith(".json"):
                _check(json.loads(content))
            written.writestr(name, content)
    copy.seek(0)
    return copy


def _check(value: Any, key: str | int = "") -> None:
    if (
        key in _IMPORTS
        or (key == "expr_str" and not _is_expression(value))
        or (key == "path_name" and not str(value).startswith(("weight_", "tensor_")))
    ):
        raise pickle.UnpicklingError(f"{key} {value}")
    if isinstance(value, dict | list):
        for name, entry in value.items() if isinstance(value, dict) else enumerate(value):
            _check(entry, name)
    elif isinstance(value, str):
        # It may be JSON itself.
        with contextlib.suppress(ValueError):
            _check(json.loads(value))


def _is_expression(text: str) -> bool:
    """Whether a text has names, numbers, operators and SymPy's classes alone, which SymPy then evaluates as Python."""
    try:
        return all(isinstance(node, _EXPRESSION) or _is_plain(node) for node in ast.walk(ast.parse(text, mode="eval")))
    except SyntaxError:
        return False


def _is_plain(node: ast.AST) -> bool:
    # SymPy costs a second, and few files have expressions.
    import sympy
    from torch.utils._sympy import functions

    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        function = getattr(functions, node.func.id, None) or getattr(sympy, node.func.id, None)
        return isinstance(function, type) and issubclass(function, sympy.Basic)
    if isinstance(node, ast.Constant):
        return not isinstance(node.value, str) or re.fullmatch(r"[\w.+-]*", node.value) is not None
    return False
