"""Configuration transitions of the rules."""

load("//firmware/boards:boards.bzl", "BOARDS")
load("//platforms:cores.bzl", "CORES", "DEFAULT_CORE", "representative")

visibility(["//rules/..."])

_PLATFORMS = "//command_line_option:platforms"
_HOST_PLATFORM = "//command_line_option:host_platform"
_CONSOLE = "//firmware:console"
_MODEL = "//firmware:model"
_PROFILE = "//firmware:profiling"
_BUILD_ID = "//rules/private:build_id"
_NPU = "//rules:npu"
_NO_NPU = "//rules:no_npu"

# A user's options of the compiler.
_OPTIONS = ["//command_line_option:" + name for name in ["conlyopt", "copt", "cxxopt"]]

def no_board(board):
    """Returns an error with the list of boards if a label in this project's folder of boards names none of them; else None.
    """
    folder = Label("//firmware/boards")
    if board.repo_name != folder.repo_name or not board.package.startswith(folder.package + "/") or board.name in BOARDS:
        return None
    return "board: there is no %s; there are %s, and your own (docs/boards.md)" % (board, ", ".join(sorted(BOARDS)))

def bare_board(board, declared):
    """Returns an error if a macro's board is the name alone of one of this project's, and the package declares none of that name; else None.
    """
    if type(board) != "string" or board not in BOARDS or board in declared:
        return None
    return "board = \"%s\": give its label, \"@torch_fusion//firmware/boards/%s\"" % (board, board)

def image_options(settings):
    """Returns the settings of a user's compiler options without those of optimization.

    An image keeps its own, whatever --copt says for programs of the machine: at -O0 kernels' inline assembler has no registers.
    """
    return {name: [option for option in settings[name] if not option.startswith("-O")] for name in _OPTIONS}

def _board_settings(board, settings):
    """Returns the settings for a board, by its label."""
    problem = no_board(board)
    if problem:
        fail(problem)
    return {
        _PLATFORMS: [str(board.same_package_label(board.name + ".platform"))],
        _NPU: str(board.same_package_label(board.name + ".npu")),
    } | image_options(settings)

def _firmware_transition_impl(settings, attr):
    return _board_settings(attr.board, settings) | {_CONSOLE: attr.console or settings[_CONSOLE]}

firmware_transition = transition(
    # An image is built for the board's platform, except for the parts that core_transition lists.
    implementation = _firmware_transition_impl,
    inputs = [_CONSOLE] + _OPTIONS,
    outputs = [_PLATFORMS, _NPU, _CONSOLE] + _OPTIONS,
)

def _board_transition_impl(settings, attr):
    return _board_settings(attr.board, settings)

board_transition = transition(
    # The settings of an image for the attribute `board`.
    implementation = _board_transition_impl,
    inputs = _OPTIONS,
    outputs = [_PLATFORMS, _NPU] + _OPTIONS,
)

# The value of `core` in macros of rules for a board.
BOARD_CORE = select({
    Label("//platforms:%s_alone" % core): core
    for core in CORES
} | {
    "//conditions:default": "",
})

# The value of `library_core` in macros: the same for boards with and without an NPU.
LIBRARY_CORE = select({
    Label("//platforms:core_" + core): core
    for core in CORES
} | {
    "//conditions:default": "",
})

CORE_TRANSITION_ATTRS = {
    "core": attr.string(
        values = [""] + sorted(CORES),
        doc = "The core for which the parts of the image are built, once for all boards that have it; empty: they are built for the board. Set by the macro.",
    ),
    "_allowlist_function_transition": attr.label(default = "@bazel_tools//tools/allowlists/function_transition_allowlist"),
}

LIBRARY_TRANSITION_ATTRS = {
    "library_core": attr.string(
        values = [""] + sorted(CORES),
        doc = "Like `core`, for parts that an NPU of the board doesn't change. Set by the macro.",
    ),
}

def _core_settings(core, settings):
    """Returns the settings for a core; without one, the settings stay."""
    if core:
        return {_PLATFORMS: [str(Label("//platforms:" + core))], _NPU: _NO_NPU}
    return {_PLATFORMS: [str(platform) for platform in settings[_PLATFORMS]], _NPU: str(settings[_NPU])}

def _core_transition_impl(settings, attr):
    return _core_settings(attr.core, settings)

core_transition = transition(
    # Changes from a board to its core: parts that do not depend on the board have one configuration, and so one build,
    # for all boards with the core. The rule has CORE_TRANSITION_ATTRS. A board with an NPU keeps its own configuration,
    # because programs depend on the NPU.
    implementation = _core_transition_impl,
    inputs = [_PLATFORMS, _NPU],
    outputs = [_PLATFORMS, _NPU],
)

def _board_or_core_transition_impl(settings, attr):
    if attr.board:
        return _board_settings(attr.board, settings)
    return _core_settings(attr.core, settings) | {name: settings[name] for name in _OPTIONS}

board_or_core_transition = transition(
    # Changes to the board of the attribute `board`, with its NPU, or to the core of the attribute `core`.
    implementation = _board_or_core_transition_impl,
    inputs = [_PLATFORMS, _NPU] + _OPTIONS,
    outputs = [_PLATFORMS, _NPU] + _OPTIONS,
)

def _library_transition_impl(settings, attr):
    return _core_settings(attr.library_core, settings) | {_PROFILE: "off", _BUILD_ID: ""}

library_transition = transition(
    # Does the same as core_transition, for parts that neither an NPU nor profiling changes: kernels, runtime, the
    # board's own code, and libraries of our applications. The rule has LIBRARY_TRANSITION_ATTRS. The second build of an
    # image (reproducibility_test) shares those of the first.
    implementation = _library_transition_impl,
    inputs = [_PLATFORMS, _NPU],
    outputs = [_PLATFORMS, _NPU, _PROFILE, _BUILD_ID],
)

def _platforms_of_programs(cores, by_cost):
    """Maps the platform of each core to that of the core for which a program for all of `cores` is made."""
    return {
        str(Label("//platforms:" + core)): str(Label("//platforms:" + representative(core, cores, by_cost)))
        for core in cores
    }

def _chooses_float(attr):
    """Returns whether an int8 torch_program with these attributes computes in floating point where that is faster.

    Programs with integer inputs and outputs shouldn't need floating-point code in between, and the costs of
    ExecuTorch's operators are unknown, because another project implements their kernels.
    """
    return attr.quantization_float_where_faster and attr.io == "float32"

def _program_transition_impl(settings, attr):
    # A program for any core is exported (and trained) once for all boards and consoles, so its configuration must not
    # depend on them. An int8 program is exported once for all cores with the same kernels, or, if it depends on the
    # costs of operators, for all cores with the same costs. A program for a specific core keeps the platform, and one
    # for an NPU keeps the NPU, too. Built by itself, on the host's platform, a program is for the default core.
    platforms = [str(platform) for platform in settings[_PLATFORMS]]
    if attr.backend == "portable" and not attr.cores:
        platforms = ["//platforms:portable"]
    elif attr.backend == "cortex_m":
        by_platform = _platforms_of_programs(attr.cores, _chooses_float(attr))
        default = DEFAULT_CORE if DEFAULT_CORE in attr.cores else attr.cores[0]
        by_platform[str(settings[_HOST_PLATFORM])] = by_platform[str(Label("//platforms:" + default))]
        platforms = [by_platform.get(platform, platform) for platform in platforms]
    return {
        _PLATFORMS: platforms,
        _NPU: str(settings[_NPU]) if attr.backend == "ethos_u" else _NO_NPU,
        _CONSOLE: "on",
        _MODEL: "//firmware:default_model",
        _PROFILE: "off",
    }

program_transition = transition(
    implementation = _program_transition_impl,
    inputs = [_PLATFORMS, _HOST_PLATFORM, _NPU],
    outputs = [_PLATFORMS, _NPU, _CONSOLE, _MODEL, _PROFILE],
)

def _tool_transition_impl(_settings, _attr):
    return {_NPU: _NO_NPU, _PROFILE: "off", _BUILD_ID: ""}

tool_transition = transition(
    # Tools of actions don't depend on what is built for a board: one configuration for all boards, instead of one for each.
    implementation = _tool_transition_impl,
    inputs = [],
    outputs = [_NPU, _PROFILE, _BUILD_ID],
)

def _profile_transition_impl(_settings, _attr):
    return {_PROFILE: "on", _CONSOLE: "on"}

profile_transition = transition(
    # Images that measure each operator and print the results.
    implementation = _profile_transition_impl,
    inputs = [],
    outputs = [_PROFILE, _CONSOLE],
)
