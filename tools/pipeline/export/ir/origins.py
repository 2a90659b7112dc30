"""Tells where in the user's model a node comes from."""

import re
from pathlib import Path

from torch.fx import Node

from tools.pipeline.model_file.call import CALLED
from tools.pipeline.model_file.model_file import innermost_place

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')


def origin(node: Node, model_file: Path) -> str:
    """Returns where in the user's model a node comes from: `layer (Class) at file:line`, as far as torch knows."""
    stack = node.meta.get("nn_module_stack", {}).values()
    layers = [(path.removeprefix(f"{CALLED}."), kind) for path, kind in stack if path not in ("", CALLED)]
    layer = ""
    if layers:
        path, kind = layers[-1]
        kind = kind if isinstance(kind, str) else kind.__name__
        layer = f"{path} ({kind.rpartition('.')[2]})"
    place = user_place(node.meta.get("stack_trace") or "", model_file)
    return " at ".join(part for part in (layer, place) if part) or node.name


def user_place(stack_trace: str, model_file: Path) -> str:
    """Returns `file:line` of the innermost frame in the user's code, from a node's stack trace, or an empty string."""
    place = innermost_place(model_file, [(match["file"], int(match["line"])) for match in _FRAME.finditer(stack_trace)])
    # Outputs must not contain paths of this machine.
    return Path(place).name if Path(place).is_absolute() else place
