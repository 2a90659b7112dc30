"""Configuration transitions of the rules."""

_PLATFORMS = "//command_line_option:platforms"
_CONSOLE = "//firmware:console"
_MODEL = "//firmware:model"
_PROFILE = "//firmware:profiling"

def _firmware_transition_impl(settings, attr):
    return {
        _PLATFORMS: [str(attr.board.same_package_label(attr.board.name + ".platform"))],
        _CONSOLE: attr.console or settings[_CONSOLE],
    }

firmware_transition = transition(
    # An image and everything below it is built for the board's platform.
    implementation = _firmware_transition_impl,
    inputs = [_CONSOLE],
    outputs = [_PLATFORMS, _CONSOLE],
)

def _program_transition_impl(settings, attr):
    # A program that runs on any core is exported (and trained) once for all
    # boards and consoles, so its configuration must not depend on them. One
    # that is lowered or meant for a core keeps the board's platform.
    portable = attr.backend == "portable" and not attr.cores
    return {
        _PLATFORMS: ["//platforms:portable"] if portable else [str(p) for p in settings[_PLATFORMS]],
        _CONSOLE: "on",
        _MODEL: "//models/sine:sine",
        _PROFILE: "off",
    }

program_transition = transition(
    implementation = _program_transition_impl,
    inputs = [_PLATFORMS],
    outputs = [_PLATFORMS, _CONSOLE, _MODEL, _PROFILE],
)

def _profile_transition_impl(_settings, _attr):
    return {_PROFILE: "on", _CONSOLE: "on"}

profile_transition = transition(
    # Images that measure each operator and print what they found.
    implementation = _profile_transition_impl,
    inputs = [],
    outputs = [_PROFILE, _CONSOLE],
)
