from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from tools.pipeline.export.options import Options
from tools.pipeline.export.rewrite.spectra.spectra import remove_complex_numbers
from tools.pipeline.export.rewrite.spectra.spectrum_operators import fft_work
from tools.pipeline.export.testing import export_source, model_source
from tools.quiet.console import UserError

_INIT = """
self.register_buffer("window", torch.hann_window(64))
self.register_buffer("phase", torch.polar(torch.rand(101), torch.rand(101) * 6))
def masked(z):
    out = torch.zeros(2, 101, dtype=torch.cfloat)
    out[:, 3:20] = z[:, 3:20]
    out[:, 50] += 1j
    return torch.fft.irfft(out)
self.masked = masked
self.register_buffer("mel", torch.rand(10, 33) * (torch.rand(10, 33) > 0.7))
"""
_INPUTS = "(torch.randn(2, 200),)"
_STFT = "torch.stft(x, 64, 16, window=self.window, return_complex=True)"
_FRAMES = "(x.unfold(-1, 48, 20) * self.window[:48])"

# Common expressions, and the operators of our own that they become.
_EXPRESSIONS = [
    (f"torch.view_as_real({_STFT})", "stft"),
    ("torch.stft(x, 64, 16, window=self.window, return_complex=False)", "stft"),
    (f"{_STFT}.abs()", "spectrogram"),
    (f"{_STFT}.abs() ** 2", "spectrogram"),
    (f"{_STFT}[..., :-1].abs().square()", "spectrogram"),
    (f"(lambda z: z.real ** 2 + z.imag ** 2)({_STFT})", "spectrogram"),
    (f"(lambda z: (z * z.conj()).real)({_STFT})", "spectrogram"),
    (f"torch.view_as_real({_STFT}).pow(2).sum(-1)", "spectrogram"),
    (f"(lambda z: torch.cat([z.abs(), z.angle()], 1))({_STFT})", "spectrogram stft"),
    (f"torch.view_as_real((2 * {_STFT}.transpose(1, 2)[:, 1:3] * torch.view_as_complex(x[:, :66].reshape(2, 33, 2))"
     "[:, None].conj() / 3 - 1j * torch.fft.rfft(x[:, None], n=64)).mean((1, 2)))", "stft stft"),
    ("torch.stft(x, 60, 16, 48, torch.hann_window(48), False, onesided=False, normalized=True, return_complex=True)"
     ".abs()", "spectrogram"),
    ("torch.stft(x, 64, 16, win_length=40, pad_mode='constant', return_complex=True).abs()", "spectrogram"),
    ("torch.stft(x, 64, 16, window=self.window, pad_mode='replicate', return_complex=True).abs()", "spectrogram"),
    ("torch.fft.rfft(x, n=300, norm='ortho').abs()", "spectrogram"),
    ("torch.fft.rfft(x, n=99).real", "stft"),
    ("torch.fft.fft(x[0]).imag", "stft"),
    (f"self.mel @ ({_STFT}.abs() ** 2)", "filtered_spectrogram"),
    (f"torch.log(torch.matmul(({_STFT}.abs() ** 2).transpose(1, 2), self.mel.T).transpose(1, 2) + 1e-3)",
     "filtered_spectrogram"),
    (f"F.linear(torch.fft.rfft({_FRAMES}, n=64).abs(), self.mel)", "filtered_spectrogram"),
    ("torch.fft.rfft(x[:, :64] * self.window).abs() ** 2 @ self.mel.T", "filtered_spectrogram"),
    (f"(lambda p: (self.mel @ p).mean() + p.mean())({_STFT}.abs())", "spectrogram"),
    ("self.mel @ torch.stft((x * 9e3).to(torch.int16).float() / 32768, 64, 16, window=self.window, "
     "return_complex=True).abs()", "filtered_spectrogram"),
    ("torch.fft.irfft(torch.fft.rfft(x) * (0.5 + 2j))", "stft stft"),
    ("torch.fft.irfft(torch.fft.rfft(x, n=99) * 1j, n=99, norm='ortho')", "stft stft"),
    ("torch.fft.irfft(torch.view_as_complex(x[:, :66].reshape(2, 33, 2)), n=40)", "stft"),
    ("torch.fft.irfft(torch.view_as_complex(x[:, :66].reshape(2, 33, 2)), n=101, norm='forward')", "stft"),
    ("torch.fft.irfft(torch.view_as_complex(x.reshape(10, 20, 2)), dim=0)", "stft"),
    ("torch.fft.irfft(torch.view_as_complex(x[0, :8].reshape(4, 2)), n=1)", "stft"),
    (f"torch.istft({_STFT} * torch.sigmoid(self.mel.sum(0)[:, None]), 64, 16, window=self.window)", "stft stft"),
    ("torch.istft(torch.stft(x, 64, 16, return_complex=True)[0], 64, 16, length=230)", "stft stft"),
    (f"torch.istft({_STFT}, 64, 16, window=self.window, length=150)", "stft stft"),
    ("torch.istft(torch.stft(x, 48, 14, 48, self.window[8:56] + 0.1, False, normalized=True, return_complex=True), 48, "
     "14, 48, self.window[8:56] + 0.1, center=False, normalized=True, length=100)", "stft stft"),
    ("torch.istft(torch.stft(x, 60, 14, 48, self.window[8:56], return_complex=True), 60, 14, 48, self.window[8:56])",
     "stft stft"),
    ("torch.fft.ifft(torch.fft.fft(x) * self.mel[0, :1]).real", "stft stft"),
    ("torch.fft.ifft(torch.fft.fft(x, n=50), n=77, norm='ortho').abs()", "stft stft"),
    ("torch.fft.ifft(x, norm='forward').imag", "stft"),
    ("torch.fft.rfft(x, dim=0).abs()", "stft"),
    ("torch.fft.fft(torch.fft.fft(x.reshape(10, 40), dim=-1), dim=-2).real", "stft stft"),
    ("torch.fft.fft2(x.reshape(2, 10, 20)).abs()", "stft stft"),
    ("torch.fft.fftn(x.reshape(5, 8, 10), s=(4, 11), dim=(0, 2), norm='forward').imag", "stft stft"),
    ("torch.fft.irfft2(torch.fft.rfft2(x.reshape(1, 20, 20), norm='ortho') * (1 + 2j), s=(18, 21), norm='ortho')",
     "stft stft stft stft"),
    ("torch.fft.ifftn(torch.fft.rfftn(x.reshape(5, 8, 10))).real", "stft stft stft stft stft stft"),
    ("torch.fft.irfftn(torch.fft.fftn(x.reshape(4, 10, 10), dim=(0, 1)), dim=(0, 1))", "stft stft stft stft"),
    ("torch.fft.irfft(torch.fft.rfft(x, n=400).abs().square() / 400, n=400)", "spectrogram stft"),
    ("torch.fft.hfft(torch.fft.ihfft(x))", "stft stft"),
    ("torch.fft.fftshift(torch.fft.fft(x)).abs()", "stft"),
    ("F.pad(torch.fft.rfft(x)[:, :8], (0, 9)).abs()", "stft"),
    ("torch.exp(1j * x).angle()", ""),
    ("torch.view_as_real(torch.fft.rfft(x) / (torch.fft.rfft(x, n=200).abs() + 1j) + x[:, :1] - 2)",
     "spectrogram stft"),
    ("torch.view_as_real(torch.einsum('bi,io->bo', torch.fft.rfft(x)[:, :8], torch.polar(x[:, :8].T.abs(), "
     "x[:, 8:16].T)))", "stft"),
    ("torch.view_as_real(torch.cat(torch.fft.rfft(x)[:, :100].chunk(4, 1)[1:3], 0))", "stft"),
    ("torch.view_as_real(torch.stack([z * k for k, z in enumerate(torch.fft.rfft(x).unbind(0))]))", "stft"),
    ("torch.view_as_real(torch.where(x[:, :101] > 0, torch.fft.rfft(x), torch.fft.rfft(x).conj().sqrt()))",
     "stft stft"),
    ("torch.linalg.vector_norm(torch.fft.rfft(x), dim=-1)", "stft"),
    ("((torch.fft.rfft(x) / 9) ** 5 + torch.fft.rfft(x) ** self.mel[0, :1] - self.phase ** -1.5).abs()", "stft stft"),
    ("torch.view_as_real(torch.log(torch.fft.rfft(x) + 3).sum())", "stft"),
    ("torch.fft.irfft(torch.zeros(2, 33, dtype=torch.cfloat).index_copy(1, torch.arange(9), torch.fft.rfft(x)[:, :9]))",
     "stft stft"),
    ("torch.view_as_real(torch.fft.rfft(x) * self.phase + self.phase)", "stft"),
    ("self.masked(torch.fft.rfft(x))", "stft stft"),
    ("torch.fft.irfft(torch.fft.rfft(x, n=4) * torch.tensor([1j, 2, 3 - 1j]))", "stft stft"),
    ("torch.istft(torch.stft(x, 32, 8, onesided=False, return_complex=True), 32, 8, onesided=False)", "stft stft"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "operators"), _EXPRESSIONS, ids=[each[0][:60] for each in _EXPRESSIONS])
def test_spectra_are_computed_by_operators_of_our_own(expression: str, operators: str) -> None:
    model, inputs = _model(f"return {expression}")
    program = torch.export.export(model, inputs, strict=False)
    program = remove_complex_numbers(program, Path("model.py"))
    calls = [node for node in program.graph.nodes if "torch_fusion" in str(node.target)]
    assert [str(node.target).split(".")[1] for node in calls] == operators.split()
    # Messages name the transform, not the operator that reads it.
    assert all("ft" in node.meta["torch_fn"][1] for node in calls)
    values = pytree.tree_leaves([node.meta.get("val") for node in program.graph.nodes])
    assert not any(value.is_complex() for value in values if isinstance(value, torch.Tensor))
    torch.testing.assert_close(program.module()(*inputs), model(*inputs), rtol=1e-4, atol=1e-5)


def _model(forward: str) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """The model of a model file and its example inputs."""
    namespace: dict[str, Any] = {"F": torch.nn.functional}
    exec(model_source(forward, _INPUTS, _INIT), namespace)
    return namespace["model"](), namespace["example_inputs"]()


def test_a_program_takes_samples_as_they_are_and_stores_nothing_of_their_spectra(tmp_path: Path) -> None:
    forward = f"x = x.float() / 32768\nreturn torch.log(self.mel @ {_STFT}.abs().square() + 1e-6)"
    inputs = "((torch.randn(1, 2000) * 9e3).to(torch.int16),)"
    result = export_source(tmp_path, model_source(forward, inputs, _INIT))
    assert list(result.operators) == ["torch_fusion::filtered_spectrogram", "aten::add", "aten::log"]
    assert {entry["dtype"] for entry in result.manifest["inputs"]} == {"Short"}
    # The working memory of the FFT, and the features.
    assert result.manifest["planned_buffers"][0] <= 4000 + 4 * fft_work(64) + 2 * 4 * 10 * 126 + 64


@pytest.mark.parametrize(
    ("forward", "says"),
    [
        (
            "return torch.linalg.inv(torch.fft.rfft(x[:, :3])).abs()",
            r"my_model.py:\d+.*\(`return torch.linalg.inv.*complex numbers",
        ),
        ("return (2 ** torch.fft.rfft(x[:, :3])).abs()", r"my_model.py:\d+.*\(`return \(2 \*\*.*complex numbers"),
        ("return torch.fft.rfft(x.double()).abs()", r"my_model.py:\d+.*of float64 numbers .*; use float32"),
        ("return torch.fft.rfft(x)", r"complex64.*a program cannot hold"),
    ],
)
def test_what_has_no_form_on_a_device_is_refused_by_its_line(forward: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=says):
        export_source(tmp_path, model_source(forward, _INPUTS, _INIT))


def test_features_stay_in_float_before_a_network_in_int8(tmp_path: Path) -> None:
    forward = f"""
x = torch.cat([x[:, :1], x[:, 1:] - 0.97 * x[:, :-1]], 1)
x = torch.log(self.mel @ {_STFT}.abs().square() + 1e-3)
return self.net(x.unsqueeze(1))
"""
    network = "nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(704, 3)"
    init = f"{_INIT}self.net = nn.Sequential({network})"
    options = Options(core="cortex-m4", backend="cortex_m")
    result = export_source(tmp_path, model_source(forward.strip(), _INPUTS.replace("2,", "1,"), init), options=options)
    names = [result.manifest["operators"][call["operator"]]["name"] for call in result.manifest["instructions"]]
    # The samples keep their full precision.
    assert names[:3] == ["aten::mul", "aten::sub", "aten::cat"]
    at = names.index("cortex_m::quantize_per_tensor")
    assert {"torch_fusion::filtered_spectrogram", "aten::log"} <= set(names[:at])
    assert {"torch_fusion::convolution", "torch_fusion::linear"} <= set(names[at:])
    assert "aten::convolution" not in names
    # The result is close to that of eager mode.
    eager, quantized = result.golden["eager_0"], result.golden["output_0"]
    assert abs(eager - quantized).max() < 0.05 * abs(eager).max()
