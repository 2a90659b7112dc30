"""Two of the networks, :sweep does all; and the tables of docs/networks.md."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from conformance.networks import sweep
from tools.quiet.console import UserError


@pytest.mark.parametrize("name", ["mobilenet_v1_blocks", "gpt_block"])
def test_int8_runs_on_the_device_faster_than_float32_and_close_to_it(name: str) -> None:
    floating, int8 = (sweep.run(name, backend, "mps2_an386") for backend in ("portable", "cortex_m"))
    assert floating.problem is None and int8.problem is None
    assert int8.snr_db > 15
    assert int8.instructions < floating.instructions
    assert int8.size < floating.size


# Depthwise convolutions and concatenations of channels that fill no words, and convolutions over time.
@pytest.mark.parametrize("name", ["ghost_module", "temporal_convolutions"])
def test_floating_point_is_chosen_where_int8_is_slower(name: str) -> None:
    floating, int8 = (sweep.run(name, backend, "mps2_an386") for backend in ("portable", "cortex_m"))
    assert floating.problem is None and int8.problem is None
    assert int8.instructions <= floating.instructions


def _outcome(instructions: int, **more: object) -> sweep.Outcome:
    return sweep.Outcome(snr_db=40.0, instructions=instructions, size=1000, **more)  # type: ignore[arg-type]


def _results(tmp_path: Path, outcomes: dict[tuple[str, str, str], sweep.Outcome]) -> sweep.Results:
    path = tmp_path / "results.jsonl"
    path.write_text(
        "".join(json.dumps([*key, asdict(each)]) + "\n" for key, each in outcomes.items()), encoding="utf-8"
    )
    return sweep.Results(path, Path("networks.py"))


def test_a_document_gets_a_row_for_each_network_and_keeps_the_rest(tmp_path: Path) -> None:
    results = _results(
        tmp_path,
        {
            ("m4", "fast", "portable"): _outcome(1000),
            ("m4", "fast", "cortex_m"): _outcome(400),
            ("m4", "left", "portable"): _outcome(1000),
            ("m4", "left", "cortex_m"): _outcome(1000, in_float=("everything stays in floating point, for 2",)),
            ("m4", "large", "portable"): sweep.Outcome("refused: it is too large", is_refused=True),
            ("m4", "large", "cortex_m"): _outcome(9),
        },
    )
    document = tmp_path / "page.md"
    document.write_text("before\n<!-- table: all -->\nold\n<!-- end of table -->\nbehind\n", encoding="utf-8")
    sweep.update(document, {"all": sweep.document_table(["fast", "left", "large"], ["m4"], results)})
    text = document.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- table: all -->\n| network |") and text.endswith(
        "<!-- end of table -->\nbehind\n"
    )
    assert "old" not in text
    assert "| fast | 1,000 | 0.40 | 1.00 | 40 | 0 |" in text
    assert "| left | 1,000 | 1.00 | 1.00 | | all |" in text
    assert "| large | | refused | | | |" in text
    assert "m4: int8 / float32 0.70 in the median, 0.40 to 1.00; none slower in int8, of 2." in text


def test_a_document_without_the_table_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("no table\n", encoding="utf-8")
    with pytest.raises(UserError, match="lacks the lines .*, each once:\n<!-- table: all -->"):
        sweep.update(document, {"all": "| x |"})
    assert document.read_text(encoding="utf-8") == "no table\n"
