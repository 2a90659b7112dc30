"""Every operator of the list with every dtype, on this machine under sanitizers and on an emulated Cortex-M4."""

import os
from pathlib import Path

from conformance.op_db import table


def test_the_table_is_complete_and_nothing_fails() -> None:
    results = [Path(path) for path in os.environ["RESULTS"].split()]
    assert table(Path(os.environ["CALLS"]), Path(os.environ["DOCUMENT"]), check=True, results=results) == 0
