from tools.commands.benchmark.benchmark import Row, documented, table, update

_BEFORE = Row("sine", "int8", "mps2_an386", 6584, 250, 604, 454, 1991)
_OTHER = Row("add", "float32", "mps2_an386", 5088, 232, 1064, 436, 649)
_NOW = Row("sine", "int8", "mps2_an386", 6600, 250, 604, 454, 1200)
_TEXT = f"# Numbers\n\n{table([_BEFORE, _OTHER])}\n\n| sine | 1 |\n"


def test_rows_of_a_document_are_found() -> None:
    assert documented(_TEXT) == {("sine", "int8", "mps2_an386"), ("add", "float32", "mps2_an386")}


def test_a_row_is_written_anew_and_the_rest_stays() -> None:
    unknown = Row("resnet8", "int8", "mps2_an386", 1, 1, 1, 1, 1)
    text, higher = update(_TEXT, [_NOW, unknown])
    assert text == _TEXT.replace("6,584 | 250 | 604 | 454 | 1,991", "6,600 | 250 | 604 | 454 | 1,200")
    assert higher == ["sine int8 mps2_an386: flash 6,584 -> 6,600"]
