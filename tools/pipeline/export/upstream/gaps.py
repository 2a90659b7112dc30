"""Lists all parts of PyTorch, torchao and ExecuTorch that this package replaces.

`replaced` and `replace` refuse symbols that are missing here, so that the table is complete. A test resolves every
symbol, and so finds symbols that a new release has removed.
"""

import functools
import importlib
import importlib.metadata
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from packaging.version import Version


@dataclass(frozen=True)
class Gap:
    """A symbol of another package that is replaced.

    Attributes:
      symbol: `module:attribute` or `module:Class.attribute`.
      why: what is wrong or missing without the replacement.
      since: the first release that needed it, of executorch, or of torch or torchao for their symbols.
      until: the first release that mends it, by which the symbol may be gone; none yet if empty.
      is_added: whether the class lacks the attribute and gets it, or only its objects have it.
    """

    symbol: str
    why: str
    since: str = "1.4"
    until: str = ""
    is_added: bool = False

    def is_open(self) -> bool:
        """Returns whether the installed release needs the replacement."""
        version = Version(importlib.metadata.version(self.symbol.partition(".")[0])).release
        return Version(self.since).release <= version and (not self.until or version < Version(self.until).release)

    def resolve(self) -> tuple[Any, str]:
        """Returns the module or class that has the attribute, and the attribute's name.

        Raises ImportError or AttributeError if the installed release lacks it.
        """
        module, _, path = self.symbol.partition(":")
        *owners, name = path.split(".")
        owner = functools.reduce(getattr, owners, importlib.import_module(module))
        if not self.is_added:
            getattr(owner, name)
        return owner, name


_ARM = "executorch.backends.arm"
_CORTEX_M = "executorch.backends.cortex_m"
_VIEWS = f"{_ARM}._passes.propagate_view_copy_permute_pass"
_LAYOUTS = "views and permutations are moved past readers that are not told"
_SHAPES = "views and permutations are moved where shapes are not known"

GAPS = (
    Gap(
        f"{_ARM}._passes.accumulate_index_put_pass:AccumulateIndexPutPass.call_operator",
        "an assignment adds once to an element that several indices name",
    ),
    Gap(f"{_ARM}._passes.arm_pass_manager:ArmPassManager.add_passes", "no pass can be put among the backend's own"),
    Gap(
        f"{_ARM}._passes.decompose_div_tensor_mode:DecomposeDivTensorModePass.call_operator",
        "divisions of integers are quantized for Ethos-U55",
    ),
    Gap(f"{_ARM}._passes.insert_table_ops:TableOps.__getitem__", "tables are made of a fixed list of functions only"),
    Gap(f"{_ARM}._passes.insert_table_ops:TableOps.special_table_ops", "as above"),
    Gap(
        f"{_ARM}._passes.remove_permutes_around_elementwise_tosa_ops:"
        "RemovePermutesAroundElementwiseTosaOps.permute_subgraph",
        _LAYOUTS,
    ),
    Gap(f"{_VIEWS}:PropagateViewCopyPermutePass._propagate", _SHAPES, until="1.5"),
    Gap(f"{_VIEWS}:PropagateViewCopyPermutePass._retrace", _SHAPES, until="1.5"),
    Gap(f"{_VIEWS}:PropagateViewCopyPermuteUpPass._maybe_swap_view_args", _LAYOUTS),
    Gap(f"{_VIEWS}:PropagateViewCopyPermuteDownPass._maybe_swap_view_args", _LAYOUTS),
    Gap(f"{_VIEWS}:PropagateViewCopyPermuteUpPass._can_cross_next_nodes", _SHAPES, until="1.5"),
    Gap(f"{_VIEWS}:PropagateViewCopyPermuteDownPass._can_cross_next_nodes", _SHAPES, until="1.5"),
    Gap(
        f"{_ARM}._passes.rewrite_conv_pass:RewriteConvPass._has_int32_rescale_user",
        "a convolution of 16 bits returns its sums where one of several readers takes them",
        until="1.5",
    ),
    Gap(f"{_ARM}.ethosu.backend:vela_compile", "Vela's options, its report and its failures are lost"),
    Gap(f"{_ARM}.ethosu.backend:EthosUBackend.preprocess", "a failure does not name the place in the model"),
    Gap(
        f"{_ARM}.operator_support.ethos_u55_support:EthosU55NotSupported.is_node_supported",
        "Ethos-U55 and U65 repeat pixels, which the partitioner leaves to the core",
        until="1.5",
    ),
    Gap(
        f"{_ARM}.operator_support.ethos_u55_support:EthosU55ResizeCheck.is_node_supported",
        "Ethos-U55 and U65 repeat a single pixel, which the partitioner leaves to the core",
        "1.5",
    ),
    Gap(
        f"{_ARM}.operator_support.tosa_supported_operators:SupportedTOSAOperatorCheck.is_node_supported",
        "operators are accepted that the backend then raises for",
    ),
    Gap(
        f"{_ARM}.operator_support.tosa_supported_operators:TOSA_PRO_INT_SupportList",
        "an operator of ours is not among those that the partitioner takes",
    ),
    Gap(
        f"{_ARM}.operator_support.tosa_supported_operators:CheckProperQuantization.targeted_ops",
        "as above, for the check of its quantization",
    ),
    Gap(
        f"{_ARM}.operator_support.upsample_support:_is_upsample_node_tosa_supported",
        "resampling to a size takes other pixels than PyTorch",
    ),
    Gap(
        f"{_ARM}.tosa.partitioner:WhyNoPartitionReporter", "why an operator stays on the core is printed, not returned"
    ),
    Gap(f"{_ARM}.vgf.backend:VgfBackend.preprocess", "operands in floating point lose their layers' quantization"),
    Gap(
        f"{_ARM}.vgf.backend:vgf_compile",
        "the payload has a tag that counts exports; failures name a file that is gone",
    ),
    Gap(
        f"{_CORTEX_M}.quantizer.pattern_checkers:CortexMConvTranspose2DCheck._check_node",
        "transposed convolutions with output padding stay in floating point",
    ),
    Gap(
        f"{_CORTEX_M}.quantizer.quantizer_support:BINARY_OP_PATTERNS", "differences stay in floating point", until="1.5"
    ),
    Gap(
        f"{_CORTEX_M}.quantizer.pattern_checkers:CortexMAddMulCheck.check_pattern",
        "sums and products of broadcast operands stay in floating point, and factors of operands are ignored",
    ),
    Gap(
        f"{_CORTEX_M}.quantizer.pattern_checkers:CortexMDivCheck.check_pattern",
        "divisions become an operator that divides in floating point, for which there is no kernel here",
        "1.5",
    ),
    Gap(
        "executorch.exir.passes.constant_prop_pass:_PRIMITIVE_TYPES",
        "a memory format counts as an argument that depends on an input",
    ),
    Gap("torch.amp.autocast_mode:autocast.__enter__", "a device would compute in bfloat16 what float32 was", "2.13"),
    Gap(
        "torch.nn.modules.transformer:_detect_is_causal_mask",
        "the mask's values are read, which export has not",
        "2.13",
    ),
    Gap(
        "torch.export._trace:DEFAULT_EXPORT_DYNAMO_CONFIG",
        "branches of sizes that may vary are not known to return the same strides",
        "2.13",
    ),
    Gap(
        "torch.export._trace:register_buffer_assignment_hook",
        "what layers of a model assign to their buffers is lost",
        "2.13",
    ),
    Gap(
        "torch._subclasses.fake_tensor:FakeTensorConverter.from_real_tensor",
        "the values of constants are not known to the model's code",
        "2.13",
    ),
    Gap("torch._subclasses.fake_tensor:CONSTANT_NUMEL_LIMIT", "as above, for constants of several elements", "2.13"),
    Gap("torch.fx.interpreter:Interpreter.call_function", "passes infer the same shapes again and again", "2.13"),
    Gap("executorch.exir.pass_base:_ExportPassBase.call", "a pass that changes nothing writes its graph anew", "1.4"),
    Gap(
        "torch.export.exported_program:ExportedProgram.run_decompositions",
        "a program is traced anew where a table has nothing for it",
        "2.13",
    ),
    Gap(
        "torch._subclasses.fake_tensor:FakeTensorMode.static_shapes",
        "sizes of constants count as sizes that vary",
        "2.13",
        is_added=True,
    ),
    *(
        Gap(
            f"{module}:_collect_all_valid_cia_ops", "all operators of PyTorch are listed for each decomposition", "2.13"
        )
        for module in ("torch._export.utils", "torch.export.decomp_utils", "torch.export.exported_program")
    ),
    Gap("torch._export.utils:_materialize_cpp_cia_ops", "as above", "2.13"),
    Gap("torch.export.exported_program:_override_composite_implicit_decomp", "as above", "2.13"),
    Gap("torch.fx.graph_module:GraphModule.recompile", "each pass compiles code that nobody runs", "2.13"),
    Gap("torch.fx.graph_module:GraphModule._code", "as above", "2.13", is_added=True),
    Gap(
        "torch.fx.traceback:NodeSource.__deepcopy__",
        "a copy of a graph copies all that was before",
        "2.13",
        is_added=True,
    ),
    Gap("torchao.quantization.pt2e.prepare:_union", "tensors that share ranges in a circle never end", "0.18"),
)

_BY_SYMBOL = {gap.symbol: gap for gap in GAPS}


def is_open(symbol: str) -> bool:
    """Returns whether the installed release needs the replacement of a symbol in the table."""
    return _BY_SYMBOL[symbol].is_open()


def check_is_known(owner: Any, name: str) -> None:
    """Raises LookupError if an attribute of a module, class or object is not in the table."""
    if isinstance(owner, ModuleType):
        symbols = [f"{owner.__name__}:{name}"]
    else:
        kinds = owner.__mro__ if isinstance(owner, type) else type(owner).__mro__
        symbols = [f"{kind.__module__}:{kind.__qualname__}.{name}" for kind in kinds]
    if not any(symbol in _BY_SYMBOL for symbol in symbols):
        raise LookupError(f"{symbols[0]} is replaced, but not in upstream/gaps.py; it needs a row with the reason.")
