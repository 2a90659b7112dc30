"""The table of passes: what happens to a model, in which order, for each backend.

docs/passes.md is generated from it. Importing this file fails if no earlier pass gives a property that a pass needs.
`--dump-after NAME` of the export prints the program after a pass.
"""

from tools.pipeline.export.ir.passes import Pass, Pipeline, Property

_FUNCTIONAL = frozenset({Property.FUNCTIONAL})
_ATTENTION = frozenset({Property.ATTENTION_DECOMPOSED})
_BATCH_NORM = frozenset({Property.BATCH_NORM_FOLDED})
_RECURRENT = frozenset({Property.RECURRENT_WHOLE})
_DECOMPOSED = frozenset({Property.DECOMPOSED})
_RESHAPED = frozenset({Property.RESHAPED})
_EDGE = frozenset({Property.EDGE})
_U85 = frozenset({"u85"})

# ---- passes that several backends share ----

_decompose_attention = Pass("rewrite.attention:decompose_attention", gives=_ATTENTION)
_fold_batch_norm = Pass("rewrite.batch_norm:fold_batch_norm", gives=_BATCH_NORM)
_keep_recurrent_layers = Pass("rewrite.own_operators:keep_recurrent_layers", gives=_RECURRENT)
_write_log_softmax = Pass("rewrite.log_softmax:write_log_softmax")
_decompose = Pass(
    "rewrite.decompositions.decompositions:decompose", needs=_BATCH_NORM, gives=_DECOMPOSED, breaks=_RESHAPED
)
_assemble = Pass("rewrite.assignments:assemble")
_functionalize = Pass(
    "rewrite.decompositions.decompositions:functionalize", needs=_BATCH_NORM, gives=_FUNCTIONAL, breaks=_RESHAPED
)
_propagate_constants = Pass("rewrite.constant_propagation:propagate_constants")
_reshape_views = Pass("rewrite.views:reshape_views", gives=_RESHAPED)
_order_for_kernels = Pass("ir.dim_orders:order_for_kernels", needs=_EDGE)
_drop_pool_places = Pass("rewrite.maxima:drop_pool_places")
_compute_attention_constants = Pass("backends.arm.constants:compute_constants", needs=_BATCH_NORM | _DECOMPOSED)
_fill_groups = Pass("backends.arm.forms:fill_groups")
_write_layers = (
    Pass("backends.arm.forms:compose_layers"),
    _drop_pool_places,
    Pass("backends.arm.forms:part_extremes"),
    Pass("rewrite.products:write_products"),
    Pass("rewrite.unbatched:add_batch"),
    Pass("backends.arm.forms:pad_outside"),
    Pass("rewrite.rows:write_rows_as_images"),
    Pass("rewrite.pool_padding:take_ignored_padding"),
    Pass("backends.arm.forms:write_strides"),
    Pass("backends.arm.forms:round_down"),
    Pass("backends.arm.forms:convert_integers"),
)

# Precedes ExecuTorch's quantizers for Arm.
_CAPTURED_FOR_INTEGERS = (_fold_batch_norm, _write_log_softmax, _decompose, _assemble, _compute_attention_constants)

# Removes what does not contribute to the model's results.
_FOLD_LAYERS = (
    _decompose_attention,
    _fold_batch_norm,
    Pass("rewrite.kernel_reach:leave_out_what_is_over_padding", needs=_BATCH_NORM),
    Pass("rewrite.dead_channels:remove_dead_channels", needs=_BATCH_NORM),
    Pass("rewrite.averages:average_first", needs=_BATCH_NORM),
)

# ---- capturing, for every backend ----

CAPTURE = Pipeline(
    "capture",
    (
        Pass("capture.capture:list_readers"),
        Pass("capture.capture:batch_functions"),
        Pass("capture.capture:rename_inputs"),
        Pass("capture.capture:rename_constants"),
        Pass("capture.own_memory:return_changed_operands"),
        Pass("capture.own_memory:copy_changed_inputs"),
        Pass("capture.own_memory:copy_operands_returned"),
        Pass("capture.capture:fill_memory"),
        Pass("rewrite.circular_padding:join_ends"),
        Pass("rewrite.no_ops:drop_empty_operands"),
        Pass("capture.tensor_indices:keep_tensor_indices"),
        Pass("rewrite.branches:lift_constants"),
        Pass("rewrite.branches:write_loops"),
        Pass("rewrite.inverses:invert_constants"),
    ),
)

# ---- after capturing, for backends whose graphs have neither conditions nor loops ----

STRAIGHT = Pipeline("cortex_m, ethos_u and vgf, captured", (Pass("rewrite.branches:write_branches"),))

# ---- portable: the model's own dtypes ----

PORTABLE = Pipeline(
    "portable, captured",
    (
        *_FOLD_LAYERS,
        Pass("rewrite.narrow_images:lay_down_narrow_images"),
        _keep_recurrent_layers,
        _decompose,
        _assemble,
        Pass("rewrite.constant_propagation:fold_without_kernel", needs=_DECOMPOSED),
    ),
    then="ExecuTorch makes it an edge program.",
)
PORTABLE_EDGE = Pipeline(
    "portable, edge",
    (
        _propagate_constants,
        Pass("rewrite.own_operators:drop_pool_indices", needs=_EDGE),
        _order_for_kernels,
        Pass("ir.dim_orders:order_outputs", needs=_EDGE),
    ),
    begins=_EDGE | _FUNCTIONAL,
    then="ExecuTorch emits it; the passes over the plan follow.",
)

# ---- cortex_m: int8 on the core ----

CORTEX_M = Pipeline(
    "cortex_m, captured",
    (
        *_FOLD_LAYERS,
        _write_log_softmax,
        Pass("rewrite.averages:convolve_averages", needs=_BATCH_NORM),
        Pass("backends.cortex_m.volumes:write_volumes", needs=_BATCH_NORM),
        Pass(
            "rewrite.decompositions.decompositions:decompose_all",
            needs=_BATCH_NORM,
            gives=_FUNCTIONAL | _DECOMPOSED,
            breaks=_RESHAPED,
        ),
        _assemble,
        _drop_pool_places,
        Pass("rewrite.no_ops:drop_no_ops", needs=_FUNCTIONAL),
        Pass("rewrite.numbers:write_numbers", needs=_FUNCTIONAL),
        Pass("rewrite.sums:join_terms", needs=_FUNCTIONAL),
        Pass("rewrite.products:write_products", needs=_FUNCTIONAL),
        Pass("rewrite.unbatched:add_batch", needs=_FUNCTIONAL),
        Pass("rewrite.written_norms:find_norms", needs=_FUNCTIONAL),
        Pass("backends.cortex_m.recurrent:make_layers_of_cells", needs=_FUNCTIONAL),
        _keep_recurrent_layers,
        Pass("backends.cortex_m.forms:make_quantizable", needs=_FUNCTIONAL | _RECURRENT),
        Pass("backends.cortex_m.flatten:flatten_in_memory_order", needs=_FUNCTIONAL),
        # PyTorch's kernels run during calibration and constant folding, and may return orders of dimensions other than
        # traced.
        _reshape_views,
        _propagate_constants,
    ),
    then="Channels are equalized, observers see the calibration samples, and the quantized module is captured again.",
)
CORTEX_M_QUANTIZED = Pipeline(
    "cortex_m, quantized",
    (
        # A pass may choose another order of dimensions than the captured one, in which a view would be invalid.
        _reshape_views,
        Pass("backends.cortex_m.norms:lower_norms"),
        Pass("backends.cortex_m.prelu:lower_prelus"),
        Pass("backends.cortex_m.softmax:lower_softmaxes"),
        Pass("backends.cortex_m.recurrent:lower_recurrent"),
        Pass("backends.cortex_m.int4:lower_int4"),
        Pass("backends.cortex_m.lower:quantize_biases"),
        Pass("backends.cortex_m.lower:separate_activations"),
        _keep_recurrent_layers,
        _decompose,
    ),
    begins=_BATCH_NORM,
    then="ExecuTorch makes it an edge program.",
    follows="quantize",
)
# Also used for the operators that an NPU leaves to the core.
CORTEX_M_SUBSTITUTION = Pipeline(
    "cortex_m, edge: operators of the core",
    (
        Pass("backends.cortex_m.lower:substitute_operators", needs=_EDGE),
        Pass("backends.cortex_m.lower:list_integers"),
        _propagate_constants,
        _order_for_kernels,
        Pass("backends.cortex_m.tables:tabulate", needs=_EDGE),
        Pass("backends.cortex_m.lower:fuse_clamps", needs=_EDGE),
        Pass("backends.cortex_m.lower:cancel_transpositions", needs=_EDGE),
        Pass("backends.cortex_m.lower:order_images", needs=_EDGE),
        Pass("backends.cortex_m.lower:drop_empty_padding", needs=_EDGE),
        Pass("backends.cortex_m.lower:count_work", needs=_EDGE),
        Pass("backends.cortex_m.lower:drop_unused_constants"),
    ),
    begins=_EDGE,
)
CORTEX_M_EDGE = Pipeline(
    "cortex_m, edge",
    (
        *CORTEX_M_SUBSTITUTION.passes,
        Pass("backends.cortex_m.lower:dequantize_once", needs=_EDGE),
        Pass("backends.cortex_m.lower:leave_views_to_the_plan", needs=_EDGE),
        Pass("backends.cortex_m.lower:let_quantization_overlap", needs=_EDGE),
        Pass("backends.cortex_m.lower:note_default_order", needs=_EDGE),
    ),
    begins=_EDGE,
    then="State becomes buffers, the program is run on the golden inputs, and its results are the golden outputs.",
)
CORTEX_M_PACKED = Pipeline(
    "cortex_m, packed",
    (
        Pass("backends.cortex_m.transposed:transpose_in_memory", needs=_EDGE),
        Pass("backends.cortex_m.pack:prepare", needs=_EDGE),
        Pass("backends.cortex_m.lower:write_numbers_without_dims", needs=_EDGE),
        Pass("backends.cortex_m.lower:drop_unused_constants"),
        Pass("backends.cortex_m.lower:drop_scratch"),
    ),
    begins=_EDGE,
    then="It is run again and must give the same; then ExecuTorch emits it.",
)

# ---- ethos_u: int8 or int16 on an NPU ----

ETHOS_U = Pipeline(
    "ethos_u, captured",
    _CAPTURED_FOR_INTEGERS,
    then="Masks, concatenations and long recurrent layers are looked at on the calibration samples.",
)
ETHOS_U_FORMS = Pipeline(
    "ethos_u, in forms that the NPU can take",
    (
        *_write_layers,
        _fill_groups,
        # ExecuTorch's passes don't quantize operators that only read constants, and then refuse the readers of their
        # results.
        _propagate_constants,
        Pass("backends.ethos_u.forms:write_minima", not_for=_U85),
        Pass("backends.ethos_u.forms:write_signs"),
        Pass("backends.ethos_u.forms:reduce_images"),
        Pass("backends.ethos_u.forms:reduce_strides"),
        Pass("backends.ethos_u.forms:write_volumes", not_for=_U85),
        Pass("backends.ethos_u.forms:write_resampling", not_for=_U85),
        Pass("backends.ethos_u.forms:pool_in_steps", not_for=_U85),
        Pass("backends.ethos_u.forms:choose_windows"),
        Pass("backends.ethos_u.forms:average_one_batch", not_for=_U85),
        Pass("backends.ethos_u.forms:fold_strides", not_for=_U85),
        Pass("backends.ethos_u.forms:choose_pixels", not_for=_U85),
        Pass("backends.ethos_u.forms:pad_strides"),
        Pass("backends.ethos_u.forms:copy_parts"),
        Pass("backends.ethos_u.forms:copy_functions"),
    ),
    then="ExecuTorch quantizes it for Ethos-U and delegates what the NPU can take; Vela compiles the delegates.",
)

# ---- vgf: Vulkan ----

VGF = Pipeline(
    "vgf, captured, int8",
    _CAPTURED_FOR_INTEGERS,
    then="ExecuTorch's quantizer for VGF quantizes it in the forms below.",
)
VGF_FLOAT = Pipeline(
    "vgf, captured, floating point",
    (
        _decompose_attention,
        _fold_batch_norm,
        _decompose,
        # Attention's transposed results are no views in the default order.
        _reshape_views,
        # A value that an operator changes in place is not a constant.
        _functionalize,
        _assemble,
        *_write_layers,
        _propagate_constants,
    ),
    then="ExecuTorch's partitioner for VGF delegates it.",
)
VGF_FORMS = Pipeline(
    "vgf, in forms that ExecuTorch's quantizer knows",
    (*_write_layers, _fill_groups, _propagate_constants),
    then="ExecuTorch quantizes it for VGF and delegates it.",
)

PIPELINES = (
    CAPTURE,
    STRAIGHT,
    PORTABLE,
    PORTABLE_EDGE,
    CORTEX_M,
    CORTEX_M_QUANTIZED,
    CORTEX_M_SUBSTITUTION,
    CORTEX_M_EDGE,
    CORTEX_M_PACKED,
    ETHOS_U,
    ETHOS_U_FORMS,
    VGF,
    VGF_FLOAT,
    VGF_FORMS,
)
