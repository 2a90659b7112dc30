"""The repositories of what others made. Each is fetched when a build first needs something of it."""

load("//third_party:releases.bzl", "chosen_release", "lock_of", "release_constraints")
load("//third_party/arm_gnu_toolchain:repository.bzl", "arm_gnu_libstdcxx", "arm_gnu_softfp", "arm_gnu_toolchain")
load("//third_party/cmake:repository.bzl", "cmake")
load("//third_party/debian:debian.bzl", "debian_suite")
load("//third_party/executorch:repository.bzl", "executorch")
load("//third_party/host_compiler:repository.bzl", "host_clang", "host_compiler")
load("//third_party/lavapipe:repository.bzl", "lavapipe")
load("//third_party/npm:repository.bzl", "npm_library")
load("//third_party/python:packages.bzl", "python_packages")
load("//third_party/python:repository.bzl", "pypi", "pypi_set", "python3")
load("//third_party/qemu:qemu_user.bzl", "qemu_user")
load("//third_party/qemu:repository.bzl", "qemu")
load("//toolchains/python:exec_tools.bzl", "python_exec_tools")

# The sets of Python packages, each with those that it builds on; third_party/python/requirements has a lock for each.
PYPI_SETS = {
    "tools": [],
    "torch": ["tools"],
    "export": ["tools", "torch"],
    "ethos_u": ["tools", "torch", "export"],
    "vgf": ["tools", "torch", "export"],
    "networks": ["tools", "torch", "export"],
    "trained": ["tools", "torch", "export"],
    "board": ["tools"],
    "docs": ["tools"],
    "fuzz": ["tools"],
    "test": ["tools"],
}

# Nothing here needs these parts of the packages. They are a fifth of torch's size: files to build C++ against it, and
# programs. Importing it looks for torch_shm_manager. And a quarter of the packages for exports: programs and static
# libraries of tosa-tools, and GPU kernels. And other languages than the documents' own.
_EXCLUDE = {
    "docs": ["babel/locale-data/[!er]*", "sphinx/locale/[a-z]*/LC_MESSAGES"],
    "torch": [
        "torch/bin/[!t]*",
        "torch/bin/test*",
        "torch/include",
        "torch/share",
        "torch/test",
    ],
    # Folders that tosa-tools and torchao have beside their own packages hide folders of models with the same names.
    "export": [
        "bin",
        "checker",
        "conformance",
        "convert2conformance",
        "frameworks",
        "generator",
        "include",
        "json2fbbin",
        "json2numpy",
        "lib",
        "lib64",
        "runner",
        "schemavalidation",
        "test",
        "tests",
        "torchao/_C_cutlass_*",
        "xunit",
    ],
}

# Neither training nor exporting imports these, or few models: a fifth of all byte code, whose making is most of the
# time of fetching.
_NO_BYTE_CODE = {
    "torch": [
        "fsspec",
        "setuptools",
        "sympy/codegen",
        "sympy/combinatorics",
        "sympy/holonomic",
        "sympy/parsing",
        "sympy/physics",
        "sympy/polys/benchmarks",
        "sympy/stats",
        "sympy/testing",
        "sympy/vector",
        "torch/_inductor/fx_passes/serialized_patterns",
        "torch/_vendor",
        "torch/distributed/pipelining",
        "torchgen/packaged",
    ],
    "export": [
        "conformance",
        "executorch/backends/apple",
        "executorch/backends/cadence",
        "executorch/backends/cuda",
        "executorch/backends/mlx",
        "executorch/backends/nxp",
        "executorch/backends/qualcomm",
        "executorch/backends/samsung",
        "executorch/backends/vulkan",
        "executorch/backends/xnnpack",
        "executorch/devtools",
        "executorch/examples",
        "executorch/extension/llm",
        "frameworks",
        "generator",
        "joblib",
        "narwhals",
        "scipy",
        "sklearn",
        "torchao/_models",
        "torchao/prototype",
        "torchao/testing",
    ],
}

_SUITE = "@debian_bookworm//:mirror.txt"

# tools/pipeline/page puts the three of JavaScript into pages: docs/page.md says why. firmware/update checks signatures with
# libsodium, whose C sources this package of Node's has. They are repository names -> arguments of npm_library.
NPM_LIBRARIES = {
    "npm_d3": {
        "file": "dist/d3.min.js",
        "package": "d3",
        "sha256": "f0c1d2c2479907a6e3265370d0fd715f7aef0f561cdd2b415df385ba7df9d1aa",
        "version": "7.9.2",
    },
    "npm_dagre": {
        "file": "dist/dagre.min.js",
        "package": "@dagrejs/dagre",
        "sha256": "12441833c8af49e5a241d94bfd53159875965876b3f4f3214abafe1ed6a9ee4c",
        "version": "3.1.3",
    },
    "npm_plot": {
        "file": "dist/plot.umd.min.js",
        "package": "@observablehq/plot",
        "sha256": "4dcc9f7afd10caee8b2283c0075a5765610cfbbf6d7d93cdb153b3b5d3501afc",
        "version": "0.6.17",
    },
    "npm_sodium": {
        "build_file": "//third_party/npm:libsodium.BUILD.bazel",
        "file": "deps/libsodium",
        "package": "sodium",
        "sha256": "4789b3ba0358e1be8d5ce7c183f2094aaf2caeb8b7120bbb08f589fe9a120937",
        "version": "3.0.2",
    },
}

def _third_party_impl(mctx):
    # Another workspace may use this extension, too.
    is_root = any([module.is_root for module in mctx.modules if module.name == "torch_fusion"])
    release = chosen_release(mctx)
    interpreters = [tag.interpreter for module in mctx.modules if module.is_root for tag in module.tags.python]
    if len(interpreters) > 1:
        fail("third_party.python in MODULE.bazel: there are {} of them; a workspace has one interpreter, so leave one.".format(len(interpreters)))
    debian_suite(name = "debian_bookworm", suite = "bookworm")
    arm_gnu_toolchain(name = "arm_gnu_toolchain", suite = _SUITE)
    arm_gnu_libstdcxx(name = "arm_gnu_libstdcxx", suite = _SUITE, toolchain = "@arm_gnu_toolchain//:BUILD.bazel")
    arm_gnu_softfp(name = "arm_gnu_softfp", suite = _SUITE, toolchain = "@arm_gnu_toolchain//:BUILD.bazel")
    python3(name = "python3", interpreter = interpreters[0] if interpreters else None, suite = _SUITE)
    for name in PYPI_SETS:
        pypi_set(
            name = "pypi_" + name,
            content = "python-" + name,
            exclude = _EXCLUDE.get(name, []),
            lock = lock_of(release, name),
            no_byte_code = _NO_BYTE_CODE.get(name, []),
            public_lock = "//third_party/python:requirements/torch_public.txt" if name == "torch" else None,
            python = "@python3//:BUILD.bazel",
        )
    pypi(
        name = "pypi",
        constraints = release_constraints(release),
        sets = {name: ["pypi_" + other for other in others + [name]] for name, others in PYPI_SETS.items()},
    )
    executorch(
        name = "executorch",
        lock = lock_of(release, "export"),
        patches = ["//third_party/executorch:lean_headers.patch"],
        python = "@python3//:BUILD.bazel",
    )
    cmake(name = "cmake", suite = _SUITE)
    qemu(name = "qemu", suite = _SUITE)
    lavapipe(name = "lavapipe", suite = _SUITE)
    for name, library in NPM_LIBRARIES.items():
        npm_library(name = name, **library)
    qemu_user(name = "qemu_user", suite = _SUITE)
    host_clang(name = "host_clang", suite = _SUITE)
    host_compiler(
        name = "host_compiler",
        clang = "@host_clang//:BUILD.bazel",
        suite = _SUITE,
        # If another workspace depends on this module, it chooses the compiler for its machine itself.
        toolchain = is_root,
    )
    python_exec_tools(name = "python_exec_tools")
    for module in mctx.modules:
        for tag in module.tags.python_packages:
            python_packages(
                name = tag.name,
                lock = tag.lock,
                # Exporting and training run with these.
                provided = [lock_of(release, name) for name in PYPI_SETS["export"] + ["export"]],
                python = "@python3//:BUILD.bazel",
            )

_python_packages_tag = tag_class(
    doc = "Python packages of one's own: `@NAME//:site`, for the `deps` of a torch_program.",
    attrs = {
        "lock": attr.label(
            doc = "Requirements with hashes, as `pip-compile --generate-hashes` writes them. Packages that Torch Fusion has are left out.",
            mandatory = True,
        ),
        "name": attr.string(doc = "Name of the repository, for use_repo().", mandatory = True),
    },
)

_python_tag = tag_class(
    doc = "The interpreter of all tools and model files, in place of Debian's Python 3.11; the root module's counts.",
    attrs = {
        "interpreter": attr.label(doc = "E.g. \"@python_3_12_host//:python\", Python 3.11, 3.12 or 3.13.", mandatory = True),
    },
)

_release_tag = tag_class(
    doc = "The release of ExecuTorch, with the packages that belong to it; the root module's counts.",
    attrs = {
        "version": attr.string(doc = "E.g. \"1.5\"; docs/build.md lists them.", mandatory = True),
    },
)

third_party = module_extension(
    implementation = _third_party_impl,
    tag_classes = {
        "python": _python_tag,
        "python_packages": _python_packages_tag,
        "release": _release_tag,
    },
)
