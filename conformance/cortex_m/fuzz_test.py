"""Random quantized models with fixed seeds on emulated cores and this machine; :fuzz goes on for longer."""

from conformance.cortex_m.fuzz import TARGETS, boards_of, check_seeds, describe
from tools.artifacts.core.core import has_dsp
from tools.verify.run_pte.run_pte import read_runners


def test_random_models() -> None:
    runners = read_runners().boards
    for target in TARGETS:
        # This machine runs the same code without the DSP extension.
        emulated = set(boards_of(target, runners)) - {"host"}
        assert emulated or not has_dsp(target), f"no emulated board takes programs for {target}"
    problems = check_seeds(range(8, 10), runners)
    assert not problems, "\n".join(f"seed {seed}: {text}\n{describe(seed)}" for seed, text in problems.items())
