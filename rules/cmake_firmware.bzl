"""The `cmake_firmware` macro: builds your own firmware project with CMake."""

load("@rules_python//python:py_info.bzl", "PyInfo")
load("//platforms:cores.bzl", "FLOAT_ABIS", "core_of", "float_abi", "float_abi_constraints", "float_abi_error", "float_abi_flags")
load("//rules/private:actions.bzl", "NO_NETWORK")
load("//rules/private:firmware_commands.bzl", "OWN_APPLICATION", "firmware_commands")
load("//rules/private:image_files.bzl", "IMAGE_FILES_ATTRS", "write_image_files")
load("//rules/private:toolchain_files.bzl", "tools_of")
load("//rules/private:transitions.bzl", "board_transition")
load(":providers.bzl", "BoardInfo", "FirmwareInfo", "TorchPackageInfo")

def _configuration(core, toolchain):
    """Returns the folders of libstdc++'s configuration for images, which is the same for all float ABIs."""
    config = "/bits/c++config.h"
    return [file.path.removesuffix(config) for file in toolchain if file.path.endswith("/arm-none-eabi/" + core.multilib + config)]

def _clang_flags(core, flags, toolchain, nano):
    """Returns Clang's options for a core and the headers of GCC's toolchain; `nano` has newlib-nano's."""
    variants = _configuration(core, toolchain)
    cpp = [folder.removesuffix("/arm-none-eabi/" + core.multilib) for folder in variants]
    c = [file.dirname for file in toolchain if file.path.endswith("/arm-none-eabi/include/newlib.h")]
    headers = cpp + variants + nano + c
    return (
        # Clang doesn't know GCC's options for passes.
        ["--target=arm-none-eabi", "-mthumb"] + [flag for flag in flags if not flag.startswith("-fno-")] +
        ["-isystem {here}/" + folder for folder in headers]
    )

def _package_definitions(ctx, packages, core_key, abi):
    """Returns CMake's variables that select the archives of packages, unless `definitions` sets them."""
    definitions = {}
    for package in packages:
        variable = package.name.upper() + "_ARCHIVE"
        if not package.archives or variable in ctx.attr.definitions:
            continue
        archive = "%s-%s" % (core_key, abi)
        if archive not in package.archives:
            fail("%s: package %s has archives for %s, and none for %s, which is what the project is compiled for" % (ctx.label, package.name, package.archives, archive))
        definitions[variable] = archive
    return definitions

def _libraries(files):
    """Returns the folders for GCC's option -B from the files of a repository with variants of libraries; empty without files.
    """
    return {file.path.partition("/thumb/")[0]: None for file in files}.keys()

def _below_package(file, label):
    """Returns a file's path below the package of a target."""
    path = file.short_path
    if path.startswith("../"):
        path = path.split("/", 2)[2]
    folder = label.package + "/"
    return path.removeprefix(folder) if label.package else path

def _cmake_firmware_impl(ctx):
    name = ctx.label.name
    board = ctx.attr.board[BoardInfo]
    core = core_of(board.core)
    core_key = board.core.replace("-", "_")
    abi = ctx.attr.float_abi or float_abi(core_key)
    elf = ctx.actions.declare_file(name + ".elf")
    map_file = ctx.actions.declare_file(name + ".map")
    packages = {}
    for target in ctx.attr.packages:
        package = target[TorchPackageInfo]
        if package.layout != "cmake":
            fail("%s: package %s has layout \"%s\"; find_package() needs \"cmake\"" % (ctx.label, target.label, package.layout))
        if package.name in packages:
            fail("%s: two packages are called %s" % (ctx.label, package.name))
        packages[package.name] = package
    toolchain = ctx.attr._compiler[DefaultInfo].files
    nano = [file.dirname for file in toolchain.to_list() if file.path.endswith("/nano/newlib.h") or file.path.endswith("/newlib-nano/newlib.h")]
    cmake = [file.dirname for file in ctx.files._cmake if file.path.endswith("/bin/cmake") and not file.path.endswith("/usr/bin/cmake")][0]
    tools = tools_of(toolchain.to_list())["gcc"].dirname
    flags = ["-mthumb", "--specs=nano.specs"] + float_abi_flags(core_key, abi)

    # The headers have no configuration of libstdc++ for `softfp`.
    headers = nano + (_configuration(core, toolchain.to_list()) if abi == "softfp" else [])
    libraries = ctx.files.softfp + ctx.files.libstdcxx_files
    search = ["-isystem {here}/" + folder for folder in headers] + ["-B{here}/%s/" % folder for folder in _libraries(libraries)]
    definitions = _package_definitions(ctx, packages.values(), core_key, abi) | ctx.attr.definitions
    arguments = ctx.actions.args()
    arguments.use_param_file("@%s")
    arguments.set_param_file_format("multiline")
    arguments.add("--project", ctx.file.project.dirname)
    arguments.add_all([ctx.file.project] + ctx.files.srcs, before_each = "--file")
    for package in packages.values():
        arguments.add_all("--package", [package.name])
        arguments.add_all([package.folder], expand_directories = False)
    arguments.add("--executable", ctx.attr.executable_target or name)
    arguments.add_all(["%s=%s" % item for item in definitions.items()], before_each = "--define")
    arguments.add("--build-type", ctx.attr.build_type)
    if ctx.attr.map:
        arguments.add("--map-file", ctx.attr.map)
    if ctx.attr.own_toolchain:
        arguments.add("--own-toolchain")
    trees = [(folder, target) for target, folder in ctx.attr.trees.items()]
    for folder, target in trees:
        for file in target[DefaultInfo].files.to_list():
            arguments.add_all("--tree-file", [folder, _below_package(file, target.label), file])
    for target in ctx.attr.python_packages:
        for path in target[PyInfo].imports.to_list():
            arguments.add("--python-path", "external/" + path if path.partition("/")[0] != ctx.workspace_name else path.partition("/")[2])
    python = depset(transitive = [
        depset(transitive = [target[DefaultInfo].default_runfiles.files, target[PyInfo].transitive_sources])
        for target in ctx.attr.python_packages
    ])
    arguments.add_all(flags, format_each = "--flag=%s")
    arguments.add_all(search, format_each = "--search=%s")
    arguments.add("--programs", tools.removesuffix("tools") + "bin")
    if ctx.attr.libstdcxx:
        arguments.add("--libstdcxx")
    arguments.add("--cmake", cmake)
    arguments.add("--elf", elf)
    arguments.add("--map", map_file)
    if ctx.files.clang:
        arguments.add("--clang", [file for file in ctx.files.clang if file.path.endswith("/tools/clang")][0])
        arguments.add_all(_clang_flags(core, float_abi_flags(core_key, abi), toolchain.to_list(), nano), format_each = "--clang-flag=%s")
    ctx.actions.run(
        executable = ctx.executable._cmake_build,
        arguments = [arguments],
        inputs = depset(
            [ctx.file.project] + ctx.files.srcs + ctx.files.clang + libraries + [package.folder for package in packages.values()],
            transitive = [toolchain, depset(ctx.files._cmake), python] + [target[DefaultInfo].files for _, target in trees],
        ),
        outputs = [elf, map_file],
        execution_requirements = NO_NETWORK,
        mnemonic = "CMakeFirmware",
        progress_message = "Building %{label} by CMake",
    )
    image_files = write_image_files(ctx, board, [], elf, map_file, summary = ctx.attr.summary, parts = ctx.attr.trees.values() + packages.keys(), heap_stack = ctx.attr.heap_stack)
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
            memories = [],
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
    doc = """Builds a firmware project by its CMakeLists.txt into `<name>.elf`, `.bin`, `.hex`, `.map` and a report of
flash and RAM. It uses this build's toolchain for the board's core, Debian's CMake and Ninja, and no network;
find_package() finds `packages`. The PATH only contains these programs, with GCC as `arm-none-eabi-gcc`, and this
build's `python3`. The project brings its own start-up code, linker script and operating system.
""",
    attrs = IMAGE_FILES_ATTRS | {
        "project": attr.label(mandatory = True, allow_single_file = ["CMakeLists.txt"], doc = "The project's CMakeLists.txt."),
        "srcs": attr.label_list(allow_files = True, doc = "All other files that the project reads, below the folder of CMakeLists.txt, such as `glob([\"**\"])`."),
        "packages": attr.label_list(
            providers = [TorchPackageInfo],
            doc = "Every torch_package, of layout `cmake`, that the project finds by find_package(NAME).",
        ),
        "board": attr.label(mandatory = True, providers = [BoardInfo], doc = "The board to run on, which determines the core and the limits."),
        "float_abi": attr.string(
            values = [""] + FLOAT_ABIS,
            doc = "GCC's float ABI of the project and its packages: `hard`, `softfp`, which Mbed OS uses, or `soft`; empty: that of images for the core.",
        ),
        "libstdcxx": attr.bool(
            doc = "Whether the project links with libstdc++, for `new`, containers and strings. It is only fetched for projects that do.",
        ),
        "softfp": attr.label(cfg = "exec", doc = "Set by the macro: the C library's variants for `softfp`."),
        "libstdcxx_files": attr.label(cfg = "exec", doc = "Set by the macro: libstdc++."),
        "executable_target": attr.string(doc = "The target of add_executable() that makes the image; the rule's name by default."),
        "clang": attr.label(
            cfg = "exec",
            doc = "Files of a Clang, `@host_clang//:compiler_files`, that replaces GCC as the compiler, for tests of packages. GCC still links.",
        ),
        "build_type": attr.string(default = "MinSizeRel", doc = "`CMAKE_BUILD_TYPE`."),
        "map": attr.string(doc = "The linker's map that the project writes by its own `-Map`, below its build folder; empty: it has none."),
        "own_toolchain": attr.bool(doc = """Whether the project selects its compiler by a toolchain file of its own. It
finds this build's `arm-none-eabi-gcc` on its PATH, with headers and libraries for `float_abi`, and sets all flags.
"""),
        "python_packages": attr.label_list(cfg = "exec", providers = [PyInfo], doc = "Every py_library with packages that the project's scripts import."),
        "trees": attr.label_keyed_string_dict(
            allow_files = True,
            doc = "Files of a framework, such as a filegroup of another repository, and the project's folder for them, in which they have their path below their own package.",
        ),
        "heap_stack": attr.int(doc = """The largest stack in bytes that a thread of the framework takes from the heap; 0: none does. An image whose heap,
by CMSIS' symbols (`__end__` to `__HeapLimit`) or FreeRTOS' (`ucHeap`), has no room for it fails the build, as on the device the thread would not start."""),
        "definitions": attr.string_dict(doc = "Variables of CMake: `-DNAME=VALUE`."),
        "summary": attr.bool(default = True, doc = "Whether the build prints the summary of the report."),
        "_compiler": attr.label(default = "@arm_gnu_toolchain//:all_files", cfg = "exec"),
        "_cmake": attr.label(default = "@cmake//:files", cfg = "exec"),
        "_cmake_build": attr.label(default = "//tools/pipeline/cmake_build", executable = True, cfg = "exec"),
        "_allowlist_function_transition": attr.label(default = "@bazel_tools//tools/allowlists/function_transition_allowlist"),
    },
    cfg = board_transition,
    provides = [FirmwareInfo],
)

def cmake_firmware(name, tags = [], visibility = None, float_abi = "", libstdcxx = False, **kwargs):
    """Builds your own firmware project, with commands on its image.

    Besides the image, `<name>`, there are `<name>.flash`, `<name>.gdb`, `<name>.monitor`, `<name>.simulate`,
    `<name>.copy` and `<name>.verify`, as for torch_firmware.

    Args:
      name: the image, and its target of add_executable(), unless `executable_target` is set.
      tags: tags of the image.
      visibility: visibility of all targets.
      float_abi: the float ABI of compiler and linker: `hard`, `softfp` or `soft`. A board whose core doesn't support it
        is incompatible. Empty: that of images for the core.
      libstdcxx: whether the project links with libstdc++.
      **kwargs: attributes of `cmake_firmware_rule`.
    """
    error = float_abi_error(float_abi)
    if error:
        fail("cmake_firmware %s: %s" % (name, error))
    cmake_firmware_rule(
        name = name,
        float_abi = float_abi,
        libstdcxx = libstdcxx,
        # Each is only fetched for projects that need it.
        libstdcxx_files = Label("@arm_gnu_libstdcxx//:files") if libstdcxx else None,
        softfp = Label("@arm_gnu_softfp//:files") if float_abi == "softfp" else None,
        tags = tags,
        target_compatible_with = kwargs.pop("target_compatible_with", []) + select(float_abi_constraints(float_abi)),
        visibility = visibility,
        **kwargs
    )
    firmware_commands(name, visibility, kwargs.get("testonly"), OWN_APPLICATION)
