from pathlib import Path

import pytest

from tools.pipeline.export.testing import export_source, model_source

_RANDOM_STATISTICS = """
for module in self.modules():
    if hasattr(module, "running_mean"):
        module.running_mean.normal_()
        module.running_var.uniform_(0.5, 2)
        if module.affine:
            module.weight.data.normal_()
            module.bias.data.normal_()
"""
_CONVOLUTION, _LINEAR, _LEFT = {"aten::convolution": 1}, {"aten::linear": 1}, {"aten::mul": 1, "aten::add": 1}
_IMAGE = (1, 3, 6, 5)

# Modules, one of them a batch normalization, the input's shape, the operators that are left, and forward() if it is not
# a sequence of them.
_CASES: dict[str, tuple[str, tuple[int, ...], dict[str, int], str]] = {
    "conv2d": ("nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)", (2, 3, 6, 5), _CONVOLUTION, ""),
    "depthwise": ("nn.Conv2d(3, 6, 3, groups=3), nn.BatchNorm2d(6)", _IMAGE, _CONVOLUTION, ""),
    "same_padding": ("nn.Conv2d(3, 4, 3, padding='same'), nn.BatchNorm2d(4)", _IMAGE, _CONVOLUTION, ""),
    "transposed": ("nn.ConvTranspose2d(3, 4, 3), nn.BatchNorm2d(4)", _IMAGE, _CONVOLUTION, ""),
    "linear": ("nn.Linear(3, 4), nn.BatchNorm1d(4)", (5, 3), _LINEAR, ""),
    "two": ("nn.Linear(3, 4), nn.BatchNorm1d(4), nn.BatchNorm1d(4)", (5, 3), _LINEAR, ""),
    "what_is_cut_off_before": (
        "nn.Conv1d(3, 4, 3, padding=2), nn.BatchNorm1d(4)",
        (2, 3, 9),
        _CONVOLUTION | {"aten::slice_copy": 1},
        "return self.net[1](self.net[0](x)[..., :-2].contiguous())",
    ),
    # Elsewhere it becomes a product and a sum.
    "alone": ("nn.BatchNorm2d(3)", (2, 3, 6, 5), _LEFT, ""),
    "of_instances": ("nn.InstanceNorm2d(3, affine=True, track_running_stats=True)", (2, 3, 6, 5), _LEFT, ""),
    "after_relu": (
        "nn.Conv2d(3, 4, 3), nn.ReLU(), nn.BatchNorm2d(4)",
        (2, 3, 6, 5),
        _CONVOLUTION | {"aten::relu": 1} | _LEFT,
        "",
    ),
    "linear_over_time": ("nn.Linear(5, 4), nn.BatchNorm1d(3)", (2, 3, 5), _LINEAR | _LEFT, ""),
    "transposed_in_groups": (
        "nn.ConvTranspose2d(3, 3, 3, groups=3), nn.BatchNorm2d(3)", _IMAGE, _CONVOLUTION | _LEFT, ""
    ),
    "of_what_is_used_elsewhere": (
        "nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)",
        _IMAGE,
        _CONVOLUTION | _LEFT,
        "y = self.net[0](x)\nreturn self.net[1](y), y",
    ),
    "layers_that_share_a_weight": (
        "nn.Linear(4, 4), nn.BatchNorm1d(4)",
        (3, 4),
        {"aten::linear": 2, "aten::mul": 1, "aten::add": 1},
        "return self.net(x) + self.net[0](x * 2)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", _CASES)
def test_folds_into_the_layer_or_becomes_a_product_and_a_sum(case: str, tmp_path: Path) -> None:
    modules, shape, operators, forward = _CASES[case]
    init = f"self.net = nn.Sequential({modules})" + _RANDOM_STATISTICS
    source = model_source(forward or "return self.net(x)", f"(torch.randn({shape}),)", init)
    result = export_source(tmp_path, source)
    assert result.operators == operators
    assert result.largest_error() < 1e-5
