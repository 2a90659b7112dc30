"""The `package_binary` rule: the example of a torch_package, compiled by itself."""

load("@rules_cc//cc:action_names.bzl", "ACTION_NAMES")
load("@rules_cc//cc:find_cc_toolchain.bzl", "find_cc_toolchain", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")

# A package's user may want to know these besides -Wall and -Wextra.
_WARNINGS = "-Wall -Wextra -Wconversion -Wsign-conversion -Wdouble-promotion -Wshadow -Wcast-align -Wundef -Werror"

# $1: the package, $2: the program, then the compilers' command lines and the linker's, each after its count of words.
_SCRIPT = """\
set -eu
package=$1 program=$2
shift 2
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT
number=0
for source in $(cd "$package" && find src example -name '*.c' -o -name '*.cpp' | sort); do
  number=$((number + 1))
  case $source in
    *.cpp) standard=-std=c++17 ;;
    *) standard=-std=c11 ;;
  esac
  {compiler} $standard -O1 {warnings} -I"$package/include" -I"$package/src" \\
    -c "$package/$source" -o "$objects/$number.o"
done
# Applications that are written in an older C or C++ compile the headers by it, those in a newer one what they include, too.
for header in "$package"/include/*; do
  case $header in
    *.h) languages='c++/c++11 c++/c++2a c/c99 c/c11' ;;
    *) languages='c++/c++11 c++/c++2a' ;;
  esac
  for language in $languages; do
    {compiler} -x "${language%/*}" -std="${language#*/}" {warnings} -Wpedantic -fsyntax-only -I"$package/include" \
      -include "$header" - </dev/null
  done
done
if printf '' | {compiler} -std=c++2b -fsyntax-only -x c++ - 2>/dev/null; then
  for source in "$package"/src/models/*.cpp; do
    {compiler} -std=c++2b -fsyntax-only {warnings} -I"$package/include" -I"$package/src" "$source"
  done
fi
{linker} "$objects"/*.o -o "$program"
"""

def _command(features, action, variables):
    words = [cc_common.get_tool_for_action(feature_configuration = features, action_name = action)]
    words += cc_common.get_memory_inefficient_command_line(feature_configuration = features, action_name = action, variables = variables)
    return " ".join(["'%s'" % word for word in words])

def _package_binary_impl(ctx):
    toolchain = find_cc_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    compiler = _command(features, ACTION_NAMES.cpp_compile, cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
    ))
    linker = _command(features, ACTION_NAMES.cpp_link_executable, cc_common.create_link_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        is_using_linker = True,
        is_linking_dynamic_library = False,
    ))
    folder = [file for file in ctx.files.package if file.is_directory][0]
    program = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.run_shell(
        command = _SCRIPT.replace("{compiler}", compiler).replace("{warnings}", _WARNINGS).replace("{linker}", linker),
        arguments = [folder.path, program.path],
        inputs = depset([folder], transitive = [toolchain.all_files]),
        outputs = [program],
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = ACTION_NAMES.cpp_compile,
            variables = cc_common.empty_variables(),
        ),
        mnemonic = "PackageBinary",
        progress_message = "Compiling the example of %{label}",
    )
    return [DefaultInfo(files = depset([program]), executable = program)]

package_binary_test = rule(
    implementation = _package_binary_impl,
    doc = """Compiles all sources of a package by a plain compiler, with no more than its build files say, and runs its example. A
warning is an error.""",
    attrs = {
        "package": attr.label(mandatory = True, doc = "The torch_package."),
    },
    fragments = ["cpp"],
    toolchains = use_cc_toolchain(),
    test = True,
)
