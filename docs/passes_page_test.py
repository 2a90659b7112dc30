"""docs/passes.md is what the table of passes says."""

from pathlib import Path

from docs.passes_page import page


def test_the_page_is_up_to_date() -> None:
    text = Path("docs/passes.md").read_text(encoding="utf-8")
    assert text == page(), "write it anew: ./bazelw run //docs:update_passes"
