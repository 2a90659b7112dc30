"""Errors of export name the thing, the cause and the next step, with file and line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools.pipeline.export.capture.diagnosis import in_floating_point
from tools.pipeline.export.capture.words import WordedConsole, in_words
from tools.pipeline.export.options import Options, read_options
from tools.pipeline.export.testing import (
    SilentConsole,
    export_file,
    export_source,
    functions,
    model_source,
    options_file,
    run_tool,
)
from tools.quiet.console import UserError

_X = "(torch.ones(2, 4),)"
_MODEL = "import torch\nfrom torch import nn\ndef model(): return nn.ReLU().eval()\n"
_EXAMPLE = "def example_inputs(): return (torch.ones(2, 4),)\n"


def message(folder: Path, source: str) -> str:
    """Returns the message that the user reads, without the folder."""
    with pytest.raises(UserError) as caught:
        export_source(folder, source)
    return str(caught.value).replace(f"{folder}/", "")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch\n" + _EXAMPLE, "my_model.py: there is no function model(); a model file must define it."),
        (_MODEL, "my_model.py: there is no function example_inputs(); a model file must define it."),
        ("type Rows = list[int]\n", "my_model.py:1: invalid syntax. Python 3.11 runs model files, and lacks later"),
        ("import torch\nimport not_there\n", "my_model.py:2: ModuleNotFoundError: No module named 'not_there'. Is "),
        ("import torch\ntorch.ones(2) @ torch.ones(3)\n", "my_model.py:2: importing the model file failed: Runtime"),
        ("import sys\nsys.exit(0)\n", "my_model.py:2: sys.exit(0) in a model file ends only the export; raise an"),
        ("import sys\ndef model():\n    sys.exit(3)\n", "my_model.py:3: sys.exit(3) in a model file ends only the"),
        ("def model(): return model()\n", "my_model.py:1: model() failed: RecursionError: maximum recursion depth"),
        (
            "import torch\ndef model(): return torch.empty(2**60)\n",
            "my_model.py:2: model() failed: RuntimeError: ",
        ),
        (_EXAMPLE + "def model(): return 3\n", "my_model.py:2: model() must return a torch.nn.Module, not int 3."),
        (_EXAMPLE + "def model(): pass\n", "must return a torch.nn.Module, not None. Has it a `return`?"),
        (_EXAMPLE + "def model(): return lambda x: x\n", "not a function. Make it the forward() of a class of torch"),
        (_MODEL + "def model(): return nn.ReLU(), 3\n", "not a tuple (a ReLU, int 3). Return the module alone."),
        (_MODEL + "model = nn.ReLU()\n", "model must be a function, not a ReLU: write `def model():`, which"),
        (_MODEL + "class model(nn.Module):\n def __init__(self): self.l = nn.ReLU()\n", "with super().__init__()"),
        (_EXAMPLE + "def model(): return int\n", "return a torch.nn.Module, not the class int. Write int()."),
        (_EXAMPLE + "def model(width): return 3\n", "argument: 'width'. It is called without arguments: give them"),
        (_EXAMPLE + "def model(): raise AssertionError('no CUDA')\n", "CUDA. There is no GPU here: leave out .cuda()"),
        (_EXAMPLE + "def model(): raise ValueError('Errors:\\n\\t of a')\n", "failed: ValueError: Errors: of a"),
        (
            _MODEL.replace(".eval()", "") + _EXAMPLE,
            "my_model.py:3: model() returned a module in training mode; call .eval() on it",
        ),
        (
            "from torch import nn\ndef model():\n    return nn.Linear(-1, 2)\n",
            "my_model.py:3: model() failed: RuntimeError: Trying to create tensor with negative dimension -1",
        ),
        (
            "from torch import nn\ndef model(): nn.PReLU().load_state_dict({'module.weight': nn.PReLU().weight})\n",
            "of a module in another one: load {key.removeprefix('module.'): value for key, value in weights.items()}.",
        ),
        (_MODEL + "def model(): nn.PReLU().load_state_dict({'net': {}})\n", "a checkpoint that has them in an entry"),
        (
            _MODEL + "def example_inputs(): return torch.ones(2)\n",
            "my_model.py:4: example_inputs() must be a tuple of at least one tensor, or a dict of keywords, "
            "not float32[2]. Write `(tensor,)`, with a comma.",
        ),
        (_MODEL + "def example_inputs(): return [torch.ones(2)]\n", "not a list (float32[2]). Write a tuple; of"),
        (_MODEL + "example_inputs = (torch.ones(2),)\n", "must be a function, not a tuple (float32[2]): write `def ex"),
        (_MODEL + "def example_inputs(): return 1, 4\n", "Write `(torch.rand(1, 4),)` for a tensor of that shape."),
        (_MODEL + "def example_inputs(): return ()\n", "example_inputs() must be a tuple of at least one tensor"),
        (
            _MODEL + "def example_inputs(): return torch.ones(2), 3.0\n",
            "my_model.py:4: example_inputs() must be a tuple of tensors; element 1 is float 3.0.",
        ),
        (
            _MODEL + "def example_inputs(): return (torch.ones(2).numpy(),)\n",
            "element 0 is a ndarray. torch.from_numpy() makes a tensor of it.",
        ),
        (
            _MODEL + "def example_inputs(): return (torch.ones(2, dtype=torch.complex64),)\n",
            "my_model.py: example input 0 has dtype complex64, which a program cannot hold; use torch.view_as_real",
        ),
    ],
)  # fmt: skip
def test_model_file(source: str, expected: str, tmp_path: Path) -> None:
    assert expected in message(tmp_path, source)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("3", "evaluation_set() must return a pair (list of input tuples, tensor of labels), not int 3."),
        ("[], torch.ones(0)", "the inputs must be a list of at least one tuple of tensors, not a list ()."),
        ("[torch.ones(2, 4)], torch.tensor([1])", "not float32[2, 4]. Write `(tensor,)`, with a comma."),
        ("[(torch.ones(4),)], torch.tensor([1])", "(float32[4]), example_inputs() is a tuple (float32[2, 4])"),
        ("[(torch.ones(2, 4),)], torch.tensor([1.0])", "the labels must be a tensor of integers with one dimension"),
        ("[(torch.ones(2, 4),)], torch.tensor([1, 2])", "evaluation_set() returned 1 inputs but 2 labels."),
        ("1 / 0", "my_model.py:5: evaluation_set() failed: ZeroDivisionError: division by zero"),
    ],
)  # fmt: skip
def test_evaluation_set(function: str, expected: str, tmp_path: Path) -> None:
    assert expected in message(tmp_path, _MODEL + _EXAMPLE + f"def evaluation_set(): return {function}\n")


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("'yes'", "my_model.py:5: labels() must return a list with the name of each class, not a str."),
        ("['yes', 3]", "my_model.py:5: labels(): label 1 must be text of one line, not 3."),
        ("['yes', 'n\\no']", r"my_model.py:5: labels(): label 1 must be text of one line, not 'n\no'."),
        ("list('abcdefg')", "my_model.py: labels() names 7 classes, and no output has a dimension of that size: "),
    ],
)  # fmt: skip
def test_labels(labels: str, expected: str, tmp_path: Path) -> None:
    assert expected in message(tmp_path, _MODEL + _EXAMPLE + f"def labels(): return {labels}\n")


_LINES = {
    "wrong_shape": (
        "y = x * 2\nreturn self.net(y)",
        "my_model.py:12: the model fails on its example_inputs() float32[2, 4] in net.1 (Linear), which got float32[2, "
        "4]: RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x4 and 5x2). example_inputs() must return what ",
    ),
    "branch": (
        "if x.sum() > 0:\n    return x\nreturn -x",
        "my_model.py:11: what the model does here depends on the values in a tensor (`if x.sum() > 0:`); use torch",
    ),
    "loop": (
        "while x.sum() < 100:\n    x = x * 2\nreturn x",
        "my_model.py:11: what the model does here depends on the values",
    ),
    "item": (
        "return x[:, :int(x.sum())]",
        "my_model.py:11: the model converts what a tensor holds to a number of Python's",
    ),
    "number": (
        "return x / float(x.abs().max())",
        "the model converts what a tensor holds to a number of Python's or an array (`return x / float(x.abs()",
    ),
    "observer": (
        "m = torch.ao.quantization.FusedMovingAvgObsFakeQuantize(); m.disable_observer(); return m.eval()(x)",
        "my_model.py:11 (`m = torch.ao.quantization.FusedMovingAvgObsFakeQuantize(); m.disable_observer(); return m.ev",
    ),
    "packed": (
        "pack = nn.utils.rnn.pack_padded_sequence\nreturn nn.GRU(4, 2)(pack(x[None], x[0, :2].long()))[1]",
        "my_model.py:12: a packed sequence has a length that only the device will know (`return nn.GRU(4, 2)(pack(",
    ),
    "derivative": (
        "torch.set_grad_enabled(True); x = x.clone().requires_grad_()\n(x @ self.m).max().backward()\nreturn x.grad",
        "my_model.py:12: PyTorch can't capture this derivative (`(x @ self.m).max().backward()`); use torch.autogr",
    ),
    "gpu": ("return x + torch.ones(4, device='cuda')", "CUDA enabled. There is no GPU here: leave out .cuda() and dev"),
    "array": ("return x * x.numpy().mean()", "a number of Python's or an array (`return x * x.numpy().mean()`)"),
    "equal": ("return x if torch.equal(x, x + 1) else -x", "what the model does here depends on the values"),
    "fake_quantization": (
        "return torch.ao.quantization.FakeQuantize()(x)",
        "my_model.py:11: a module with observers or fake quantization can't be captured (`return torch.ao.quant",
    ),
    "size_from_data": (
        "return x.nonzero()",
        "my_model.py:11 (`return x.nonzero()`): the size of a tensor here depends on the values in another one",
    ),
    "size_from_data_in_torch": (
        "return torch.linalg.lstsq(x, x).solution",
        "my_model.py:11 (`return torch.linalg.lstsq(x, x).solution`): there is no form for a device of what the model "
        "does here. Matrices of up to 16 rows have torch.linalg.inv(), solve(), cholesky() and det(): the least ",
    ),
    "matrix": (
        "return torch.linalg.svd(x)",
        "torch.linalg.svd from my_model.py:11 (`return torch.linalg.svd(x)`)\n  Matrices of up to 16 rows have torch.",
    ),
    "loss": (
        "n = torch.tensor([2])\nreturn nn.functional.ctc_loss(x[:, None].log_softmax(2), n[None], n, n - 1)",
        "n - 1)`): there is no form for a device of what the model does here. A loss is for training: leave it out of",
    ),
    "operator_with_a_constant": (
        "return torch.nextafter(x, torch.tensor(2.0))",
        "  torch.nextafter from my_model.py:11 (`return torch.nextafter(x, torch.tensor(2.0))`)\n",
    ),
    "operator": (
        "y = x + 1\nreturn torch.erfinv(y / 9)",
        "my_model.py: there is no kernel for what the model does here:\n"
        "  torch.erfinv from my_model.py:12 (`return torch.erfinv(y / 9)`)\n",
    ),
    "one_of_several_operators": (
        "y = x + 1; y = torch.erfinv(y / 9); return y * 2",
        "  torch.erfinv from my_model.py:11 (`y = x + 1; y = torch.erfinv(y / 9); return y * 2`)\n",
    ),
    "dtype_inside": (
        "return x.to(torch.float8_e4m3fn).float()",
        "my_model.py:11 (`return x.to(torch.float8_e4m3fn).float()`): the model computes in float8_e4m3fn here, which",
    ),
    "dtype_of_output": ("return x.to(torch.complex64)", "my_model.py: the model's output 0 has dtype complex64"),
    "no_output": ("return None, [None]", "my_model.py: the model returns no tensor: a tuple (None, a list (None))."),
    "output_is_no_tensor": ("return x, 3", "my_model.py: the model's output 1 must be a tensor, not int 3."),
    "not_capturable": (
        "return x + x.data_ptr() * 0",
        "my_model.py:11: torch.export cannot capture the model (`return x + x.data_ptr() * 0`)",
    ),
}


@pytest.mark.parametrize("case", _LINES)
def test_model(case: str, tmp_path: Path) -> None:
    forward, expected = _LINES[case]
    init = 'self.net = nn.Sequential(nn.ReLU(), nn.Linear(5, 2)); self.register_buffer("h", torch.ones(4))'
    init += "; self.m = nn.Parameter(torch.ones(4, 2))"
    assert expected in message(tmp_path, model_source(forward, _X, init))


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ("nn.Linear(4, 2).half()", "Float and Half. The weights are float16: call .float() on the model."),
        ("nn.Linear(4, 2, device='meta')", "Weights on the device meta hold no values: leave out torch.device('meta')"),
        (
            "torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 2)))",
            "model() returned a module whose fc.0 torch.ao.quantization converted, which can't be captured",
        ),
        ("nn.LazyLinear(2)", "model() returned a lazy module: fc.weight has no shape yet. Call the module once on its"),
    ],
)
def test_weights_in_another_form_than_inputs(layer: str, expected: str, tmp_path: Path) -> None:
    assert expected in message(tmp_path, model_source("return self.fc(x)", _X, f"self.fc = {layer}"))


def test_place_in_a_module_beside_the_model_file(tmp_path: Path) -> None:
    (tmp_path / "helper_of_test.py").write_text(
        "def twice(x):\n    return x * 2 if x.sum() > 0 else x\n", encoding="utf-8"
    )
    source = "from helper_of_test import twice\n" + model_source("return twice(x)", _X)
    assert "helper_of_test.py:2: what the model does here" in message(tmp_path, source)


@pytest.mark.parametrize("name", ["checker", "generator", "runner"])
def test_no_wheel_hides_a_module_beside_the_model_file(name: str, tmp_path: Path) -> None:
    module = tmp_path / f"{name}.py"
    module.write_text("OURS = 2\n", encoding="utf-8")
    export_source(tmp_path, f"from {name} import OURS\n" + model_source("return x * OURS", _X))


def test_warns_of_outputs_that_are_not_finite(tmp_path: Path) -> None:
    result = export_source(tmp_path, model_source("return x, x / 0", _X))
    assert len(result.said) == 1
    assert "output 1 of the model holds NaN or infinity" in result.said[0]


def test_weights_of_another_model(tmp_path: Path) -> None:
    from tools.pipeline.train.train import serialize

    weights = tmp_path / "other.weights"
    weights.write_bytes(serialize({}))
    with pytest.raises(UserError, match="other.weights does not fit model\\(\\) of .*my_model.py; train it again"):
        export_source(tmp_path, model_source("return self.fc(x)", _X, "self.fc = nn.Linear(4, 2)"), weights)


def arguments(folder: Path, **changed: object) -> list[object]:
    files = {"program": "m.pte", "golden": "m.npz", "manifest": "m.json", "log": "m.log"}
    options: dict[str, object] = {key: folder / name for key, name in files.items()}
    options |= {"model": folder / "my_model.py", "name": "m"} | changed
    return [item for key, value in options.items() for item in (f"--{key}", value)]


def test_an_error_is_one_message_that_names_the_log(tmp_path: Path) -> None:
    (tmp_path / "my_model.py").write_text(model_source("return x if x.sum() > 0 else -x", _X), encoding="utf-8")
    result = run_tool("tools.pipeline.export", *arguments(tmp_path))
    assert result.returncode == 1
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines[0].startswith(
        f"export: error: {tmp_path}/my_model.py:11: what the model does here depends on the values"
    )
    assert lines[1:] == [f"  (what torch printed: {tmp_path}/m.log)"]
    assert "GuardOnDataDependentSymNode" in (tmp_path / "m.log").read_text(encoding="utf-8")
    assert not (tmp_path / "m.pte").exists()


def test_the_record_of_options(tmp_path: Path) -> None:
    path = options_file(tmp_path, core="cortex-m4", min_accuracy="0.9", keep_float=["a"], weight_dtypes={"b": "int4"})
    options = read_options(path, [tmp_path])
    assert options == Options(
        "cortex-m4", min_accuracy=0.9, keep_float=("a",), weight_dtypes=(("b", "int4"),), folders=(tmp_path,)
    )
    assert read_options(None) == Options()
    for content in ({"colour": "red"}, {"keep_float": 3}, {"min_accuracy": "much"}):
        with pytest.raises(UserError, match=r"options.json is no options of an export .*pass the options.json of a"):
            read_options(options_file(tmp_path, **content))
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(UserError, match="is no options of an export"):
        read_options(path)


def test_no_model_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere.py: there is no such model file\."):
        export_file(tmp_path / "nowhere.py")


def run_export(folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    """The tool, in the folder of the model file."""
    (folder / "my_model.py").write_text(source, encoding="utf-8")
    kinds = {"--program": "p", "--golden": "g", "--manifest": "m", "--log": "log"}
    files = [str(word) for item in kinds.items() for word in item]
    command = [sys.executable, "-m", "tools.pipeline.export", "--model", "my_model.py", "--name", "net", *files]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def test_what_a_model_file_does_besides(tmp_path: Path) -> None:
    # A thread for ever, output of each kind, and another working directory.
    source = (
        _MODEL
        + _EXAMPLE
        + (
            "import os, threading, warnings\n"
            "os.chdir('/')\n"
            "threading.Thread(target=threading.Event().wait, name='mine').start()\n"
            "print('noise 1')\n"
            "os.write(2, b'noise 2\\n')\n"
            "warnings.warn('noise 3')\n"
        )
    )
    result = run_export(tmp_path, source)
    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr == "note: ended with threads of the model file still running: mine\n"
    assert all((tmp_path / name).stat().st_size for name in ("p", "g"))
    manifest = json.loads((tmp_path / "m").read_text(encoding="utf-8"))
    assert (manifest["name"], manifest["core"], manifest["backend"]) == ("net", "portable", "portable")
    log = (tmp_path / "log").read_text(encoding="utf-8")
    assert all(f"noise {number}" in log for number in (1, 2, 3))


def test_what_stays_in_floating_point_is_a_line_for_each_class_that_the_user_wrote() -> None:
    norms = [f"blocks.{i}.norm (LayerNorm) at gpt.py:{7 + i}" for i in range(5)]
    attention = [f"blocks.{i}.attention (Attention) at gpt.py:{line}" for line in (21, 22) for i in (0, 0, 1)]
    own = ["gpt.py:40", "gpt.py:41"]
    places = [*norms, *attention, "head (Linear)", *own, "aten_view_copy_default_7"]
    assert in_floating_point(places, dict.fromkeys([*attention[3:], *own], "for fewer instructions"), "Gpt") == [
        "LayerNorm at gpt.py:7, 8, 9 and 2 more lines stays in floating point: "
        "blocks.0.norm, blocks.1.norm, blocks.2.norm and 2 more",
        "Attention at gpt.py:21, 22 stays in floating point, partly for fewer instructions: "
        "blocks.0.attention, blocks.1.attention",
        "head (Linear) stays in floating point",
        "Gpt at gpt.py:40, 41 stays in floating point, for fewer instructions",
        "in floating point are operators that no line of the model has written, too: 1",
    ]


def test_random_numbers_of_forward_are_noted(tmp_path: Path) -> None:
    result = export_source(tmp_path, model_source("return x + torch.rand(2, 4)", _X))
    (note,) = [said for said in result.said if "random numbers on a device are not PyTorch's" in said]
    assert "my_model.py:11 (`return x + torch.rand(2, 4)`)" in note
    attention = "torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None])"
    layers = "self.dropout = nn.Dropout(); self.lstm = nn.LSTM(4, 4)"
    source = model_source(f"return self.dropout({attention} + self.lstm(x)[0])", _X, layers)
    assert not any("random" in said for said in export_source(tmp_path, source).said)


def test_the_accuracy_of_random_numbers_is_not_measured(tmp_path: Path) -> None:
    forward = "return self.fc(x) + torch.randn_like(x)"
    source = model_source(forward, "(torch.randn(2, 4),)", "self.fc = nn.Linear(4, 4)")
    said = "\n".join(export_source(tmp_path, source, options=Options("cortex-m4", "cortex_m")).said)
    assert "dB against floating point; the model draws random numbers, which are others in each run" in said
    assert "What helps" not in said


def test_who_computes_in_other_dtypes_of_floating_point_is_told_what_to_call(tmp_path: Path) -> None:
    source = model_source("return self.fc(x)", "(torch.rand(2, 4).half(),)", "self.fc = nn.Linear(4, 2).half()")
    (note,) = [said for said in export_source(tmp_path, source).said if "computes in float16" in said]
    assert "fc (Linear)" in note and "call .float() on the model" in note
    with pytest.raises(UserError, match=r"io = 'int8' quantizes inputs of float32, and input 0 is of float16; call"):
        export_source(tmp_path, source, options=Options("cortex-m4", "cortex_m", "int8"))
    source = model_source("return self.fc(x.double()).float()", _X, "self.fc = nn.Linear(4, 2).double()")
    said = export_source(tmp_path, source, options=Options("cortex-m4", "cortex_m", "int8")).said
    assert any("io = 'int8', but input 0 is read in floating point at my_model.py:" in text for text in said)
    said = export_source(tmp_path, model_source("return self.fc(x)", _X, "self.fc = nn.Linear(4, 2)")).said
    assert not any("call .float()" in text for text in said)


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        ("aten::_softmax, aten::slice_copy, dim_order_ops::_to_dim_order_copy", "softmax, slice, copy"),
        ("output 3 comes from dim_order_ops__clone_dim_order_default;", "output 3 comes from {unwritten};"),
        ("aten_view_copy_default_6", "{unwritten}"),
        ("ema.py:11, ema.py:11, ema.py:12", "ema.py:11, ema.py:12"),
        ("<EdgeOpOverload: aten.where.self>: schema = aten::where.self(Tensor x) -> Tensor for it", "where for it"),
        ("of aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor.", "of index."),
        ("torch_fusion::spectrogram, cortex_m::quantized_add.out", "spectrogram, add"),
        ("it failed\nUse tlparse to see full graph. (https://x)", "it failed"),
        ("its buffers (_called.last), input b__called_net_h", "its buffers (last), input b_net_h"),
        ("mine::scan from net (Net) at net.py:3", "mine::scan from net (Net) at net.py:3"),
    ],
)  # fmt: skip
def test_messages_have_no_names_of_pytorchs_inside(said: str, meaning: str) -> None:
    assert in_words(said) == meaning.format(unwritten="an operator that no line of the model has written")


def test_operators_with_the_same_words_are_said_once() -> None:
    console = SilentConsole()
    worded = WordedConsole(console)
    for number in range(2):
        worded.say(f"on the core: aten_copy_default_{number}")
    assert console.said == ["on the core: an operator that no line of the model has written"]


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (
            "nn.LSTM(4, 4, batch_first=True)",
            "can't capture all that a branch or loop calls.*; write it of other layers",
        ),
        ("nn.MultiheadAttention(4, 2, batch_first=True)", r"different orders.*; return .contiguous\(\) of both"),
    ],
)
def test_branches_that_pytorch_does_not_capture(layer: str, message: str, tmp_path: Path) -> None:
    call = "self.layer(x, x, x)[0]" if "Attention" in layer else "self.layer(x)[0]"
    forward = f"return torch.cond(x.sum() > 0, lambda x: {call}, lambda x: x + 1, (x,))"
    with pytest.raises(UserError, match=message):
        export_source(tmp_path, model_source(forward, "(torch.ones(1, 3, 4),)", f"self.layer = {layer}"))


def test_an_index_that_a_loop_counts(tmp_path: Path) -> None:
    forward = (
        "from torch._higher_order_ops.while_loop import while_loop\n"
        "start = torch.tensor(0), x[0] * 0\n"
        "return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y + {}), start)[1]"
    )
    with pytest.raises(UserError, match=r"by a number that only the device will know.*; use x.index_select"):
        export_source(tmp_path, model_source(forward.format("x[i]"), "(torch.rand(3, 4),)"))
    advised = forward.format("x.index_select(0, i.reshape(1))[0]")
    assert export_source(tmp_path, model_source(advised, "(torch.rand(3, 4),)")).largest_error() < 1e-6


@pytest.mark.parametrize("result", ["loop(x)", "torch.cond(x.sum() > 0, loop, torch.neg, (x,))"])
def test_loops_on_a_condition_have_no_form(result: str, tmp_path: Path) -> None:
    forward = (
        "from torch._higher_order_ops.while_loop import while_loop\n"
        "loop = lambda x: while_loop(lambda x: x.sum() < 3, lambda x: (x * 2,), (x,))[0]\n"
        f"return {result}"
    )
    with pytest.raises(UserError, match=r"no form of while_loop\(\) \(my_model.py:1\d\), as it is written; scan"):
        export_source(tmp_path, model_source(forward, "(torch.ones(2),)"))


_CACHE = model_source(
    "self.kept.index_copy_(0, self.at, self.layer(x))\nself.at.add_(1)\nreturn self.kept.sum() > 0, self.kept.mean(0)",
    "(torch.ones(1, 3),)",
    'self.register_buffer("kept", torch.zeros(4, 3)); self.register_buffer("at", torch.zeros(1, dtype=torch.long))\n'
    "self.layer = nn.Linear(3, 3)",
) + functions(
    calibration_inputs="[(torch.randn(1, 3),) for _ in range(COUNT)]",
    evaluation_set="[(torch.randn(1, 3),) for _ in range(3)], torch.zeros(3, dtype=torch.long)",
)


def test_a_stream_that_is_longer_than_a_cache(tmp_path: Path) -> None:
    """The first output is no classification: it has one element, true or false."""
    options = Options("cortex-m4", "cortex_m")
    export_source(tmp_path, _CACHE.replace("COUNT", "4"), options=options)
    message = r"fails on sample 4 of calibration_inputs\(\), which continues the ones before: IndexError: .*or fewer of"
    with pytest.raises(UserError, match=message):
        export_source(tmp_path, _CACHE.replace("COUNT", "5"), options=options)


def test_a_state_that_is_returned_has_the_value_of_each_sample(tmp_path: Path) -> None:
    source = _CACHE.replace("return self.kept.sum() > 0", "return self.at").replace("COUNT", "4")
    result = export_source(tmp_path, source)
    assert result.golden["output_0"].flatten().tolist() == [1, 2, 3]


@pytest.mark.parametrize("backend", ["portable", "cortex_m"])
def test_buffers_that_share_memory(tmp_path: Path, backend: str) -> None:
    """PyTorch fails with an AssertionError about its own parts; buffers side by side, or unchanged, are fine."""
    options = Options("cortex-m4", backend)
    init = "rows = torch.zeros(4, 3)\nself.register_buffer('rows', rows)\nself.register_buffer('row', rows[PART])"
    forward = "self.rows.add_(x)\nreturn self.row * 2, self.rows.sum(0)"
    source = model_source(forward, "(torch.randn(4, 3),)", init)
    with pytest.raises(UserError, match="the buffers 'rows' and 'row' share memory, and the model changes 'rows'"):
        export_source(tmp_path, source.replace("PART", "0"), options=options)
    source = source.replace("self.rows.add_(x)", "x = x + self.rows").replace("PART", "0")
    export_source(tmp_path, source, options=options)


@pytest.mark.parametrize("backend", ["portable", "cortex_m"])
def test_names_that_a_graph_has_itself(tmp_path: Path, backend: str) -> None:
    init = (
        "self.code = nn.Parameter(torch.randn(4, 3))\nself.graph = nn.Linear(3, 3)\n"
        "self.register_buffer('forward_hooks', torch.zeros(3))\nself.register_buffer('meta', torch.zeros(3))"
    )
    forward = "self.meta.add_(x[0])\nreturn self.graph(x) @ self.code.T, self.meta + 1"
    export_source(tmp_path, model_source(forward, "(torch.randn(2, 3),)", init), options=Options("cortex-m4", backend))


def test_a_tensor_that_is_quantized_at_two_scales(tmp_path: Path) -> None:
    """Halves of a layer's result are joined with other numbers, so that they get the scale of these."""
    forward = (
        "a, b = self.layer(x).chunk(2, 1)\n"
        "c = torch.cat([a - b, a + 20 * b.exp()], 1)\n"
        "return torch.cat([c[:, :2].softmax(1), c[:, 2:] * 9], 1)"
    )
    source = model_source(forward, "(torch.randn(2, 6),)", "self.layer = nn.Linear(6, 8)")
    export_source(tmp_path, source, options=Options("cortex-m4", "cortex_m", min_snr=45))


def test_a_core_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no core 'cortex-m99'; there are cortex-m0, "):
        export_source(tmp_path, model_source("return x", "(torch.ones(2),)"), options=Options("cortex-m99", "cortex_m"))
