from collections import Counter

import pytest

from tests.incremental.incremental import report


def test_what_costs_more_than_it_may_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    kinds = Counter(CppCompile=2, CppLink=1)
    assert report("a kernel", kinds, 3) and not report("a kernel", kinds, 2)
    assert capsys.readouterr().out.splitlines() == [
        "| a kernel | 3 | 3 | CppCompile 2, CppLink |",
        "| a kernel | 3 | 2 (exceeded) | CppCompile 2, CppLink |",
    ]
