"""Lists operators of the edge dialect: those that it does not decompose, and those that several passes ask for."""

import torch
from executorch.exir import EdgeCompileConfig
from executorch.exir.dialects._ops import ops as exir_ops

# These operators are not decomposed. The kernel of linear reads the weight as the module stores it, [out, in];
# decomposition would leave a transposition of the weight and a matrix product. The others are one pass over their
# elements instead of two to six. The exceptions have portable kernels, but don't belong to the operators that all
# backends know.
EDGE = EdgeCompileConfig(
    _core_aten_ops_exception_list=[
        torch.ops.aten._upsample_bilinear2d_aa.default,
        torch.ops.aten.bitwise_left_shift.Tensor,
        torch.ops.aten.bitwise_left_shift.Tensor_Scalar,
        torch.ops.aten.bitwise_right_shift.Tensor,
        torch.ops.aten.bitwise_right_shift.Tensor_Scalar,
        torch.ops.aten.masked_select.default,
        torch.ops.aten.repeat_interleave.Tensor,
        torch.ops.aten.var_mean.correction,
    ],
    preserve_ops=[
        torch.ops.aten.hardsigmoid.default,
        torch.ops.aten.hardswish.default,
        torch.ops.aten.linear.default,
        torch.ops.aten.mish.default,
        torch.ops.aten.silu.default,
        torch.ops.aten.softplus.default,
        torch.ops.aten.threshold.default,
        torch.ops.aten.triu.default,
    ],
)

# These copy a tensor, also into another order of its dimensions in memory.
COPIES_TO_ORDER = (
    exir_ops.edge.dim_order_ops._clone_dim_order.default,
    exir_ops.edge.dim_order_ops._to_dim_order_copy.default,
)
