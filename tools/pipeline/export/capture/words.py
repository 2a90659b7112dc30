"""Rewords messages of the export in terms of the user's model, without PyTorch's internal names."""

import contextlib
import re
from collections.abc import Iterator

from tools.pipeline.model_file.call import CALLED
from tools.quiet.console import Console

_SPACES = "aten|dim_order_ops|prims|quantized_decomposed"
_RETURNED = r"-> (?:\([^()]*\)|[\w\[\]!]+)"
# Patterns and their replacements, applied in this order.
_REPLACED: tuple[tuple[str, str], ...] = (
    # `<EdgeOpOverload: aten.where.self>: schema = aten::where.self(Tensor condition, ...) -> Tensor`
    (rf"<EdgeOpOverload: (?:{_SPACES})\.(\w+)(?:\.\w+)?>(?:: schema = [^>]*{_RETURNED})?", r"\1"),
    (rf"\b(?:{_SPACES})::(\w+)(?:\.\w+)?\([^()]*(?:\([^()]*\)[^()]*)*\) {_RETURNED}", r"\1"),
    (r"\bdim_order_ops(?:::|\.)\w+(?:\.\w+)?", "copy"),
    (rf"(?:torch\.ops\.)?\b(?:{_SPACES})(?:::|\.)_*(\w+?)(?:_copy)?(?:\.\w+)?(?![\w.])", r"\1"),
    # A node without a source location in the model.
    (rf"\b(?:{_SPACES})_\w+\b", "an operator that no line of the model has written"),
    (r"\b(?:cortex_m|torch_fusion)::(?:quantized_)?(\w+)(?:\.\w+)?", r"\1"),
    (r"\s*Use tlparse to see full graph\.?(?: \([^)]*\))?", ""),
    (r"\s*While executing %?\w+(?: : .*)?$", ""),
    # The user's module in one that calls it with keywords or nested inputs.
    (rf"\b([bcp]_)?{CALLED}[._]", r"\1"),
    (r"\bFX (graph|node|trace)", r"\1"),
    (r"(\b[\w./-]+\.py:\d+\b)(?:, \1\b)+", r"\1"),
)


def in_words(text: str) -> str:
    """Removes the names of operators and graphs that users have not written from a message."""
    for pattern, meaning in _REPLACED:
        text = re.sub(pattern, meaning, text, flags=re.MULTILINE)
    return text


class WordedConsole(Console):
    """A console that rewords all messages in terms of the model, and says none twice: several operators may have the
    same words.

    Args:
      console: prints the messages.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said: set[str] = set()

    def say(self, text: str) -> None:
        text = in_words(text)
        if text not in self._said:
            self._said.add(text)
            self._console.say(text)

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        with self._console.shown():
            yield
