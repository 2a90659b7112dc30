import ctypes
import os
import warnings
from pathlib import Path

import numpy
import pytest
import threadpoolctl
import torch
from numpy._core._multiarray_umath import __cpu_baseline__, __cpu_dispatch__, __cpu_features__
from torch._subclasses.fake_tensor import FakeTensorMode

from tools.pipeline.model_file.deterministic import computing, make_deterministic, tracing

_MKL_CBWR_ALL = -1
_MKL_CBWR_COMPATIBLE = 3

make_deterministic()


def test_libraries_run_the_code_that_all_processors_have() -> None:
    # A library that no longer knows its setting, after an update, would choose by the processor again.
    assert torch.backends.cpu.get_cpu_capability() == "DEFAULT"
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    assert library.mkl_serv_cbwr_get(_MKL_CBWR_ALL) == _MKL_CBWR_COMPATIBLE
    assert not torch.backends.mkldnn.enabled
    assert {"SSE", "SSE2", "SSE3"} >= set(__cpu_baseline__)
    assert [feature for feature in __cpu_dispatch__ if __cpu_features__[feature]] == []
    # OpenBLAS has the same code under both names.
    pools = threadpoolctl.threadpool_info()
    assert {pool["architecture"] for pool in pools if pool["internal_api"] == "openblas"} == {"Katmai"}
    assert "-FMA," in os.environ["GLIBC_TUNABLES"]


def test_one_thread_computes() -> None:
    assert torch.get_num_threads() == 1
    assert {pool["num_threads"] for pool in threadpoolctl.threadpool_info()} == {1}


_FUNCTIONS = ["acos", "asin", "atan", "log", "log10", "log2", "sqrt", "tan"]


@pytest.mark.parametrize("name", _FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_replaced_functions_are_precise(name: str, dtype: torch.dtype) -> None:
    x = torch.rand(1001, dtype=dtype)
    function = getattr(numpy, name.replace("a", "arc", 1) if name in ("acos", "asin", "atan") else name)
    exact = function(x.numpy().astype(numpy.longdouble))
    unit = numpy.spacing(numpy.abs(exact).astype(x.numpy().dtype))
    allowed = (0.501 if dtype is torch.float32 else 1.5) * unit
    assert (numpy.abs(getattr(torch, name)(x).numpy() - exact) <= allowed).all()


def test_a_square_root_is_the_nearest_number() -> None:
    # MKL rounds every fifth square root in float32 to the adjacent number.
    x = torch.rand(10_000)
    assert torch.equal(torch.sqrt(x), x.double().sqrt().float())


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_replaced_functions_behave_like_others_of_torch(name: str) -> None:
    function, in_place = getattr(torch, name), getattr(torch.Tensor, f"{name}_")
    x = torch.rand(4, 6)
    expected = function(x)
    assert torch.equal(function(x.T), expected.T)
    assert torch.equal(function(x[:, ::2]), expected[:, ::2])
    assert torch.equal(function(x[1, 2]), expected[1, 2])
    assert function(torch.empty(0, 3)).shape == (0, 3)
    assert function(x.T).stride() == x.T.stride()
    assert function(torch.ones(2, dtype=torch.int32)).dtype == torch.float32
    assert function(torch.ones(2, dtype=torch.bfloat16)).dtype == torch.bfloat16
    assert function(torch.ones(2, dtype=torch.complex64)).dtype == torch.complex64
    changed = x.clone()
    assert in_place(changed[:, ::2]).data_ptr() == changed.data_ptr()
    assert torch.equal(changed[:, ::2], expected[:, ::2]) and torch.equal(changed[:, 1::2], x[:, 1::2])
    out = torch.empty(0)
    assert function(x, out=out) is out and torch.equal(out, expected)
    with pytest.raises(RuntimeError, match="can't be cast"):
        function(x, out=torch.empty(4, 6, dtype=torch.int32))
    with pytest.raises(RuntimeError, match="can't be cast"):
        in_place(torch.ones(3, dtype=torch.int32))
    assert torch.autograd.gradcheck(function, torch.rand(5, dtype=torch.float64, requires_grad=True) / 2 + 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert function(torch.tensor([float("nan")])).isnan().all()
        function(torch.tensor([-2.0, 0.0, float("inf")]))


@pytest.mark.parametrize(
    ("x", "weight", "options"),
    [
        ((2, 4, 9, 9), (8, 4, 3, 3), {"padding": 1}),
        ((1, 4, 9, 9), (4, 1, 3, 3), {"groups": 4}),
        ((1, 1, 9, 9), (4, 1, 3, 3), {"stride": 2}),
        ((1, 4, 1, 1), (8, 4, 1, 1), {}),
        ((1, 4, 6, 6), (8, 4, 1, 1), {}),
        ((1, 4, 3, 9, 9), (8, 4, 1, 3, 3), {"dilation": 2, "padding": 2}),
    ],
)
def test_convolutions_give_what_and_where_onednn_does(x, weight, options) -> None:
    orders = [torch.contiguous_format, torch.channels_last if len(x) == 4 else torch.channels_last_3d]
    function = torch.nn.functional.conv2d if len(x) == 4 else torch.nn.functional.conv3d
    for order in orders:
        values = torch.rand(x).contiguous(memory_format=order), torch.rand(weight)
        result = function(*values, **options)
        with tracing(), FakeTensorMode() as mode:
            fake = function(*(mode.from_tensor(value) for value in values), **options)
        assert result.stride() == fake.stride()
        exact = function(*(value.double() for value in values), **options)
        assert torch.allclose(result.double(), exact, rtol=1e-5)


def test_what_traces_computes_without_onednn() -> None:
    with tracing():
        assert torch.backends.mkldnn.enabled
        with computing():
            assert not torch.backends.mkldnn.enabled and not torch.is_grad_enabled()
        assert torch.backends.mkldnn.enabled
    assert not torch.backends.mkldnn.enabled


def test_what_is_written_to_one_place_twice_is_the_last() -> None:
    """PyTorch refuses it as nondeterministic, which it is with several threads."""
    make_deterministic()
    at = torch.tensor([[[2, 2], [0, 2]]])
    result = torch.nn.functional.max_unpool2d(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]), at, 1, 1, output_size=(2, 2))
    assert result.tolist() == [[[3.0, 0.0], [4.0, 0.0]]]
    assert torch.zeros(2).put_(torch.tensor([1, 1]), torch.tensor([1.0, 2.0])).tolist() == [0.0, 2.0]
    assert torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("largest", [False, True])
def test_equal_elements_are_found_in_the_order_that_they_have(largest: bool) -> None:
    make_deterministic()
    x = torch.arange(200).remainder(3).float().reshape(2, 100).repeat(2, 1)
    expected = x.numpy().argsort(1, kind="stable") if not largest else (-x).numpy().argsort(1, kind="stable")
    for count in (1, 5, 90, 100):
        values, places = x.topk(count, largest=largest)
        assert places.tolist() == expected[:, :count].tolist()
        assert torch.equal(values, x.gather(1, places)) and values.is_contiguous()
        found = x.kthvalue(count, 1, keepdim=True)[1]
        assert largest or found.tolist() == expected[:, count - 1 : count].tolist()
    assert x.argsort(descending=largest).tolist() == x.sort(1, largest)[1].tolist() == expected.tolist()
    with pytest.raises(RuntimeError, match="out of range"):
        x.topk(101)


def test_a_second_call_seeds_again() -> None:
    make_deterministic()
    first = torch.rand(3), numpy.random.rand()
    make_deterministic()
    assert torch.equal(first[0], torch.rand(3)) and first[1] == numpy.random.rand()
