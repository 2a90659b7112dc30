"""The `cmake_firmware` macro: a firmware project of one's own, built by CMake."""

load("//platforms:cores.bzl", "core_of")
load("//rules/private:firmware_commands.bzl", "OWN_APPLICATION", "firmware_commands")
load("//rules/private:image_files.bzl", "IMAGE_FILES_ATTRS", "write_image_files")
load("//rules/private:toolchain_files.bzl", "tools_of")
load("//rules/private:transitions.bzl", "board_transition")
load(":providers.bzl", "BoardInfo", "FirmwareInfo", "TorchPackageInfo")

def _clang_flags(core, toolchain, nano):
    """What selects a core for Clang, and the headers of GCC's toolchain; `nano` has newlib-nano's."""
    config = "/arm-none-eabi/%s/bits/c++config.h" % core.multilib
    cpp = [file.path.removesuffix(config) for file in toolchain if file.path.endswith(config)]
    c = [file.dirname for file in toolchain if file.path.endswith("/arm-none-eabi/include/newlib.h")]
    headers = cpp + [folder + "/arm-none-eabi/" + core.multilib for folder in cpp] + nano + c
    return (
        # GCC's passes are not Clang's.
        ["--target=arm-none-eabi", "-mthumb"] + [flag for flag in core.flags if not flag.startswith("-fno-")] +
        ["-isystem {here}/" + folder for folder in headers]
    )

def _cmake_firmware_impl(ctx):
    name = ctx.label.name
    board = ctx.attr.board[BoardInfo]
    core = core_of(board.core)
    elf = ctx.actions.declare_file(name + ".elf")
    map_file = ctx.actions.declare_file(name + ".map")
    packages = {}
    for target in ctx.attr.packages:
        package = target[TorchPackageInfo]
        if package.layout != "cmake":
            fail("%s: package %s has layout \"%s\"; find_package() needs \"cmake\"" % (ctx.label, target.label, package.layout))
        if package.name in packages:
            fail("%s: two packages are called %s" % (ctx.label, package.name))
        packages[package.name] = package.folder
    toolchain = ctx.attr._compiler[DefaultInfo].files
    nano = [file.dirname for file in toolchain.to_list() if file.path.endswith("/nano/newlib.h") or file.path.endswith("/newlib-nano/newlib.h")]
    cmake = [file.dirname for file in ctx.files._cmake if file.path.endswith("/bin/cmake") and not file.path.endswith("/usr/bin/cmake")][0]
    flags = ["-mthumb", "--specs=nano.specs"] + core.flags + ["-isystem {here}/" + folder for folder in nano]
    arguments = ctx.actions.args()
    arguments.add("--project", ctx.file.project.dirname)
    arguments.add_all([ctx.file.project] + ctx.files.srcs, before_each = "--file")
    for package, folder in packages.items():
        arguments.add_all("--package", [package])
        arguments.add_all([folder], expand_directories = False)
    arguments.add("--executable", ctx.attr.executable_target or name)
    arguments.add_all(["%s=%s" % item for item in ctx.attr.definitions.items()], before_each = "--define")
    arguments.add_all(flags, format_each = "--flag=%s")
    arguments.add("--tools", tools_of(toolchain.to_list())["gcc"].dirname)
    arguments.add("--cmake", cmake)
    arguments.add("--elf", elf)
    arguments.add("--map", map_file)
    if ctx.files.clang:
        arguments.add("--clang", [file for file in ctx.files.clang if file.path.endswith("/tools/clang")][0])
        arguments.add_all(_clang_flags(core, toolchain.to_list(), nano), format_each = "--clang-flag=%s")
    ctx.actions.run(
        executable = ctx.executable._cmake_build,
        arguments = [arguments],
        inputs = depset(
            [ctx.file.project] + ctx.files.srcs + ctx.files.clang + packages.values(),
            transitive = [toolchain, depset(ctx.files._cmake)],
        ),
        outputs = [elf, map_file],
        mnemonic = "CMakeFirmware",
        progress_message = "Building %{label} by CMake",
    )
    image_files = write_image_files(ctx, board, [], elf, map_file, summary = ctx.attr.summary)
    files = [elf, map_file] + image_files.values()
    return [
        DefaultInfo(files = depset(files), runfiles = ctx.runfiles(files)),
        OutputGroupInfo(_validation = depset([image_files["report.json"]])),
        FirmwareInfo(
            name = name,
            board = board,
            program = None,
            plan = None,
            models = [],
            elf = elf,
            bin = image_files["bin"],
            hex = image_files["hex"],
            uf2 = image_files.get("uf2"),
            map = map_file,
            report_text = image_files["report.txt"],
            report_json = image_files["report.json"],
            console = "on",
        ),
    ]

cmake_firmware_rule = rule(
    implementation = _cmake_firmware_impl,
    doc = """Builds a firmware project by its CMakeLists.txt into `<name>.elf`, `.bin`, `.hex`, `.map` and a report of flash and RAM: with this
build's toolchain for the board's core, Debian's CMake and Ninja, no network, and `packages` where find_package() looks. Start-up code,
linker script and whatever it runs on are the project's own.""",
    attrs = IMAGE_FILES_ATTRS | {
        "project": attr.label(mandatory = True, allow_single_file = ["CMakeLists.txt"], doc = "The project's CMakeLists.txt."),
        "srcs": attr.label_list(allow_files = True, doc = "All other files that it reads, below the folder of CMakeLists.txt, such as `glob([\"**\"])`."),
        "packages": attr.label_list(
            providers = [TorchPackageInfo],
            doc = "Every torch_package, of layout `cmake`, that the project finds by find_package(NAME).",
        ),
        "board": attr.label(mandatory = True, providers = [BoardInfo], doc = "The board to run on, whose core and limits count."),
        "executable_target": attr.string(doc = "The target of add_executable() that is the image; the rule's name by default."),
        "clang": attr.label(
            cfg = "exec",
            doc = "Files of a Clang, `@host_clang//:compiler_files`, that compiles in the place of GCC, which links: tests of packages.",
        ),
        "definitions": attr.string_dict(doc = "Variables of CMake: `-DNAME=VALUE`."),
        "summary": attr.bool(default = True, doc = "Whether building it prints the summary of the report."),
        "_compiler": attr.label(default = "@arm_gnu_toolchain//:all_files", cfg = "exec"),
        "_cmake": attr.label(default = "@cmake//:files", cfg = "exec"),
        "_cmake_build": attr.label(default = "//tools/pipeline/cmake_build", executable = True, cfg = "exec"),
        "_allowlist_function_transition": attr.label(default = "@bazel_tools//tools/allowlists/function_transition_allowlist"),
    },
    cfg = board_transition,
    provides = [FirmwareInfo],
)

def cmake_firmware(name, tags = [], visibility = None, **kwargs):
    """A firmware project of one's own, and commands on its image.

    Besides the image, `<name>`, there are `<name>.flash`, `<name>.gdb`, `<name>.monitor` and `<name>.copy`, as torch_firmware has them.

    Args:
      name: the image, and the target of add_executable() that it is, unless `executable_target` says another.
      tags: tags of the image.
      visibility: visibility of all.
      **kwargs: attributes of `cmake_firmware_rule`.
    """
    cmake_firmware_rule(name = name, tags = tags, visibility = visibility, **kwargs)
    firmware_commands(name, visibility, kwargs.get("testonly"), OWN_APPLICATION)
