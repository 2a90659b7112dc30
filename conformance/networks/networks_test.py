"""Two of the networks, :sweep does all; and the tables of docs/networks.md."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from conformance.networks import costs, sweep
from tools.pipeline.export.quantize.costs import Costs
from tools.quiet.console import UserError


@pytest.mark.parametrize("name", ["mobilenet_v1_blocks", "gpt_block"])
def test_int8_runs_on_the_device_faster_than_float32_and_close_to_it(name: str) -> None:
    floating, chosen = (sweep.run(name, form, "mps2_an386") for form in ("float32", "default"))
    assert floating.problem is None and chosen.problem is None
    assert chosen.snr_db > 15
    assert chosen.instructions < floating.instructions
    assert chosen.size < floating.size and chosen.memory < floating.memory


def test_prices_are_near_what_operators_take() -> None:
    # `costs -- --check` does all. In floating point padding and upsampling choose elements by index.
    names = [
        "convolution_2", "linear_1", "relu_0", "index_1", "upsample_nearest2d_1", "convolution3d_8", "transposed_4",
        "max_pool2d_7", "avg_pool2d_7", "group_norm_1", "prelu_2", "where_broadcast_0",
    ]  # fmt: skip
    assert costs.check("cortex-m4", costs.measure("cortex-m4", names))


@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m55"])
def test_quantizing_has_a_price(core: str) -> None:
    # A fit to operators of some kinds leaves it as it is.
    prices = Costs(core)
    for is_quantized in (False, True):
        assert prices.border(is_quantized, 100) > prices.border(is_quantized, 1) > 100


def _outcome(instructions: int, **more: object) -> sweep.Outcome:
    return sweep.Outcome(snr_db=40.0, instructions=instructions, size=1000, **more)  # type: ignore[arg-type]


def _results(tmp_path: Path, outcomes: dict[tuple[str, str, str], sweep.Outcome]) -> sweep.Results:
    path = tmp_path / "results.jsonl"
    path.write_text(
        "".join(json.dumps([*key, asdict(each)]) + "\n" for key, each in outcomes.items()), encoding="utf-8"
    )
    return sweep.Results(path, Path("networks.py"))


_LEFT = "everything stays in floating point, for about 9 instructions"


def test_a_document_gets_a_row_for_each_network_and_keeps_the_rest(tmp_path: Path) -> None:
    outcomes = {
        ("m4", "fast", "float32"): _outcome(1000, memory=400),
        ("m4", "fast", "int8"): _outcome(500, memory=100),
        ("m4", "fast", "default"): _outcome(400, memory=200),
        ("m4", "left", "float32"): _outcome(1000, memory=400),
        ("m4", "left", "int8"): _outcome(1200, memory=400),
        ("m4", "left", "default"): _outcome(1000, memory=400, in_float=(_LEFT,)),
        ("m4", "large", "float32"): sweep.Outcome("refused: it is too large", is_refused=True),
        ("m4", "large", "int8"): _outcome(9),
        ("m4", "large", "default"): _outcome(9),
    }
    results = _results(tmp_path, outcomes)
    document = tmp_path / "page.md"
    document.write_text("before\n<!-- table: all -->\nold\n<!-- end of table -->\nbehind\n", encoding="utf-8")
    sweep.update(document, {"all": sweep.document_table(["fast", "left", "large"], ["m4"], results)})
    text = document.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- table: all -->\n| network |") and text.endswith(
        "<!-- end of table -->\nbehind\n"
    )
    assert "old" not in text
    assert "| fast | 1,000 | 0.50 | 0.40 | 1.00 | 1.00 | 0.25 | 0.50 | 40 | 0 |" in text
    assert "| left | 1,000 | 1.20 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 | | all |" in text
    assert "| large | | refused | | | | | | | |" in text
    assert "m4: int8 / float32 0.85 in the median, 0.50 to 1.20; 1 slower, of 2." in text
    assert "m4: default / float32 0.70 in the median, 0.40 to 1.00; none slower, of 2." in text


def test_a_chosen_program_that_is_slower_than_the_other_one_is_a_failure(tmp_path: Path) -> None:
    def wrong_choice(floating: sweep.Outcome, int8: sweep.Outcome, chosen: sweep.Outcome) -> str | None:
        return sweep.Outcomes(floating, int8, chosen).wrong_choice()

    slow, fast = _outcome(1000, memory=9), _outcome(800, memory=9)
    assert "int8 alone takes 800" in str(wrong_choice(slow, fast, slow))
    assert "float32 takes 800" in str(wrong_choice(fast, slow, slow))
    assert wrong_choice(fast, slow, fast) is None
    # Floating point that takes much more memory isn't chosen, nor is what is hardly faster.
    assert "float32 takes 800" in str(wrong_choice(_outcome(800, memory=200), slow, slow))
    assert wrong_choice(_outcome(800, memory=600), slow, slow) is None
    assert wrong_choice(_outcome(950, memory=9), slow, slow) is None
    # The same program elsewhere in memory may take an instruction more.
    assert wrong_choice(slow, slow, _outcome(1001, memory=9)) is None


def test_a_document_without_the_table_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("no table\n", encoding="utf-8")
    with pytest.raises(UserError, match="lacks the lines .*, each once:\n<!-- table: all -->"):
        sweep.update(document, {"all": "| x |"})
    assert document.read_text(encoding="utf-8") == "no table\n"
