// Kernels of the operators in make_programs.py's programs, as the registry of the runtime's tests.

#include "kernels/prim/op_et_view.h"
#include "kernels/prim/op_sym_ops.h"
#include "runtime/executor/optional_parts.h"
#include "runtime/kernel/static_kernels.h"
#include "runtime/tests/test_operators.h"

namespace executorch::runtime::internal {

namespace {

constexpr Kernel kKernels[] = {
    torch_fusion::testing::kTestOperators[0],
    torch_fusion::testing::kTestOperators[1],
    torch_fusion::testing::kTestOperators[2],
    torch_fusion::testing::kTestOperators[3],
    Kernel("executorch_prim::et_view.default", &torch::executor::native::et_view),
    Kernel("aten::sym_numel", &torch::executor::native::sym_numel),
};

} // namespace

constexpr CheckedArgument kCheckedArguments[] = {
    {&torch::executor::native::et_view, 2, Mark::Relocated},
    {&torch::executor::native::sym_numel, 1, Mark::Replaced}};

extern const Span<const Kernel> kStaticKernels;
const Span<const Kernel> kStaticKernels = {kKernels};

extern const OptionalParts kOptionalParts;
const OptionalParts kOptionalParts = {
    &deserialization::TensorParser::parse_list,
    &deserialization::TensorParser::find_constant,
    &deserialization::TensorParser::load_initial_state,
    &locate_segment,
    {kCheckedArguments}};

} // namespace executorch::runtime::internal
