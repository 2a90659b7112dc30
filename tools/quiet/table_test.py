import pytest

from tools.quiet.console import UserError
from tools.quiet.table import replace_table, text_table


def test_words_are_flush_left_and_numbers_right() -> None:
    rows = [("#", "layer", "cycles"), ("0", "Conv2D", "5"), ("10", "Add", "1,000"), ("", "total", "")]
    assert text_table(rows, {1}) == [" #  layer   cycles", " 0  Conv2D       5", "10  Add      1,000", "    total"]


@pytest.mark.parametrize("text", ["none\n", "<begin>\nrows\n", "<begin>\n<end>\n<begin>\n<end>\n"])
def test_a_document_has_one_place_for_a_table(text: str) -> None:
    with pytest.raises(UserError, match="each once:\n<begin>\n<end>"):
        replace_table(text, "<begin>\n", "<end>\n", "| x |\n")


def test_what_stands_around_a_table_stays() -> None:
    text = replace_table("a\n<begin>\nold\n<end>\nb\n", "<begin>\n", "<end>\n", "| x |\n")
    assert text == "a\n<begin>\n| x |\n<end>\nb\n"
