"""Files that a tool reads may hold anything: it reads them, or says in one error which one is wrong, and how."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bad_files.readers import READERS, limited_memory

_MUTANTS = 150


@pytest.fixture(scope="module", autouse=True)
def memory() -> Iterator[None]:
    with limited_memory():
        yield


@pytest.mark.parametrize("name", READERS)
def test_damaged_files(name: str, tmp_path: Path) -> None:
    for content in READERS[name].damaged(_MUTANTS):
        READERS[name].try_on(content, tmp_path)
