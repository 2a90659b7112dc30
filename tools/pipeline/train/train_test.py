from pathlib import Path

import pytest

from tools.pipeline.train.train import train
from tools.quiet.console import SilentConsole, UserError


def source(folder: Path, train_body: str) -> Path:
    path = folder / "my_model.py"
    path.write_text(
        "import random, numpy, torch\n"
        "from torch import nn\n"
        "def model(): return nn.Linear(2, 3).eval()\n"
        "def example_inputs(): return (torch.ones(1, 2),)\n"
        f"def train():\n    {train_body}\n",
        encoding="utf-8",
    )
    return path


def test_training_is_repeatable(tmp_path: Path) -> None:
    body = "net = model(); net.bias.data += random.random() + numpy.random.rand() + torch.rand(3); return net"
    path = source(tmp_path, body)
    assert train(path, SilentConsole()) == train(path, SilentConsole())


def test_progress_is_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from tools.pipeline.train.__main__ import main

    path = source(tmp_path, "print('error 0.5'); return model()")
    assert main(["--model", str(path), "--output", str(tmp_path / "w")]) == 0
    out, err = capfd.readouterr()
    assert (out, err) == ("error 0.5\n", "")
    assert (tmp_path / "w.log").exists()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return nn.Linear(2, 4)", "'weight' is [3, 2] in model() but [4, 2] in what train() returned."),
        ("return nn.ReLU()", "the module that train() returned has no 'weight'; return the class of model()."),
        (
            "net = model(); net.a = nn.Linear(1, 1); return net",
            "train() returned a module with 'a.bias', which model()",
        ),
        ("net = model(); net.bias.data[1] = float('nan'); return net", "training diverged: 'bias' holds values"),
        ("return None", "my_model.py:5: train() must return a torch.nn.Module, not None."),
        ("raise OSError('no data')", "my_model.py:6: train() failed: OSError: no data"),
    ],
)
def test_errors(body: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        train(source(tmp_path, body), SilentConsole())
    assert expected in str(caught.value)


def test_no_train_function(tmp_path: Path) -> None:
    path = tmp_path / "my_model.py"
    path.write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(UserError, match="there is no function train\\(\\); define it, or leave training out"):
        train(path, SilentConsole())
