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

# Name, the modules before and after (a batch normalization is among them), input shape, operators that are left.
_FOLDED = [
    ("conv2d", "nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)", (2, 3, 6, 5), {"aten::convolution": 1}),
    ("depthwise", "nn.Conv2d(4, 8, 3, groups=4), nn.BatchNorm2d(8)", (1, 4, 6, 5), {"aten::convolution": 1}),
    ("same_padding", "nn.Conv2d(3, 4, 3, padding='same'), nn.BatchNorm2d(4)", (1, 3, 6, 5), {"aten::convolution": 1}),
    ("transposed", "nn.ConvTranspose2d(3, 4, 3), nn.BatchNorm2d(4)", (1, 3, 6, 5), {"aten::convolution": 1}),
    ("linear", "nn.Linear(3, 4), nn.BatchNorm1d(4)", (5, 3), {"aten::linear": 1}),
    ("two", "nn.Linear(3, 4), nn.BatchNorm1d(4), nn.BatchNorm1d(4)", (5, 3), {"aten::linear": 1}),
]
_LEFT = [
    ("alone", "nn.BatchNorm2d(3)", (2, 3, 6, 5)),
    ("of_instances", "nn.InstanceNorm2d(3, affine=True, track_running_stats=True)", (2, 3, 6, 5)),
    ("after_relu", "nn.Conv2d(3, 4, 3), nn.ReLU(), nn.BatchNorm2d(4)", (2, 3, 6, 5)),
    ("linear_over_time", "nn.Linear(5, 4), nn.BatchNorm1d(3)", (2, 3, 5)),
    ("transposed_in_groups", "nn.ConvTranspose2d(4, 4, 3, groups=2), nn.BatchNorm2d(4)", (1, 4, 6, 5)),
]


def source(modules: str, shape: tuple[int, ...]) -> str:
    return model_source(
        "return self.net(x)", f"(torch.randn({shape}),)", f"self.net = nn.Sequential({modules})" + _RANDOM_STATISTICS
    )


@pytest.mark.parametrize(("name", "modules", "shape", "operators"), _FOLDED, ids=[case[0] for case in _FOLDED])
def test_folds_into_the_layer(name, modules, shape, operators, tmp_path) -> None:
    result = export_source(tmp_path, source(modules, shape))
    assert result.operators == operators
    assert result.largest_error() < 1e-5


def test_folds_through_what_is_cut_off_afterwards(tmp_path: Path) -> None:
    init = "self.conv = nn.Conv1d(3, 4, 3, padding=2)\nself.norm = nn.BatchNorm1d(4)" + _RANDOM_STATISTICS
    forward = "return self.norm(self.conv(x)[..., :-2].contiguous())"
    result = export_source(tmp_path, model_source(forward, "(torch.randn(2, 3, 9),)", init))
    assert not {"aten::mul", "aten::add"} & set(result.operators)
    assert result.largest_error() < 1e-5


@pytest.mark.parametrize(("name", "modules", "shape"), _LEFT, ids=[case[0] for case in _LEFT])
def test_elsewhere_becomes_a_product_and_a_sum(name: str, modules: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    result = export_source(tmp_path, source(modules, shape))
    assert result.operators["aten::mul"] == result.operators["aten::add"] == 1
    assert not any("batch_norm" in operator for operator in result.operators)
    assert result.largest_error() < 1e-5


def test_does_not_fold_into_a_layer_whose_result_is_used_elsewhere(tmp_path: Path) -> None:
    init = "self.conv = nn.Conv2d(3, 4, 3)\nself.norm = nn.BatchNorm2d(4)" + _RANDOM_STATISTICS
    forward = "y = self.conv(x)\nreturn self.norm(y), y"
    result = export_source(tmp_path, model_source(forward, "(torch.randn(1, 3, 5, 5),)", init))
    assert result.operators == {"aten::convolution": 1, "aten::mul": 1, "aten::add": 1}
    assert result.largest_error() < 1e-5


def test_layers_that_share_a_weight_keep_their_own_results(tmp_path: Path) -> None:
    init = "self.fc = nn.Linear(4, 4)\nself.norm = nn.BatchNorm1d(4)" + _RANDOM_STATISTICS
    forward = "return self.norm(self.fc(x)) + self.fc(x * 2)"
    result = export_source(tmp_path, model_source(forward, "(torch.randn(3, 4),)", init))
    assert result.operators["aten::linear"] == 2
    assert result.largest_error() < 1e-5
