from tools.quiet.table import text_table


def test_words_are_flush_left_and_numbers_right() -> None:
    rows = [("#", "layer", "cycles"), ("0", "Conv2D", "5"), ("10", "Add", "1,000"), ("", "total", "")]
    assert text_table(rows, {1}) == [" #  layer   cycles", " 0  Conv2D       5", "10  Add      1,000", "    total"]
