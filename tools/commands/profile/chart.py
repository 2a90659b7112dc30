"""Bar charts of profiles."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.quiet.files import replacing

_COLOR = "#0072B2"


@dataclass(frozen=True)
class Bar:
    """A bar: its label, its length, and the text after it."""

    label: str
    length: int
    text: str


def draw_bars(bars: Sequence[Bar], title: str, unit: str, margin: float, path: Path) -> None:
    """Draws a bar chart, the first bar at the top, into a PNG; the same bars give the same bytes.

    Args:
        unit: of the bars' lengths.
        margin: space for the texts behind the longest bar, as a share of its length.

    Raises:
        UserError: the file can't be written.
    """
    # Imported here: it costs a second, and only the picture needs it.
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 1.4 + 0.24 * len(bars)), layout="constrained")
    axes.barh(range(len(bars)), [bar.length for bar in bars], color=_COLOR, height=0.7)
    for index, bar in enumerate(bars):
        axes.text(bar.length, index, f" {bar.text}", va="center", fontsize=7)
    axes.set_yticks(range(len(bars)), [bar.label for bar in bars], fontsize=7)
    axes.invert_yaxis()
    axes.margins(x=margin)
    axes.set_xlabel(unit)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, fontsize=9)
    try:
        with replacing(path) as file:
            figure.savefig(file, format="png", dpi=120, metadata={"Software": None})
    finally:
        pyplot.close(figure)
