"""Sources of libraries and of a kernel registry, for targets that compile them with options of their own."""

load("//rules:providers.bzl", "KernelRegistryInfo")

_SourcesInfo = provider("C++ sources of a target and its deps.", fields = {"sources": "depset of Files"})

def _sources_aspect_impl(_target, ctx):
    sources = [file for file in getattr(ctx.rule.files, "srcs", []) if file.extension == "cpp"]
    transitive = [dep[_SourcesInfo].sources for dep in getattr(ctx.rule.attr, "deps", []) if _SourcesInfo in dep]
    return [_SourcesInfo(sources = depset(sources, transitive = transitive))]

_sources_aspect = aspect(
    implementation = _sources_aspect_impl,
    attr_aspects = ["deps"],
)

def _cc_sources_impl(ctx):
    return [DefaultInfo(files = depset(
        [ctx.attr.registry[KernelRegistryInfo].source],
        transitive = [library[_SourcesInfo].sources for library in ctx.attr.libraries],
    ))]

cc_sources = rule(
    doc = "The C++ sources of libraries, of what these depend on, and of a kernel registry.",
    implementation = _cc_sources_impl,
    attrs = {
        "libraries": attr.label_list(
            aspects = [_sources_aspect],
            doc = "`cc_library` targets.",
        ),
        "registry": attr.label(
            doc = "A `kernel_registry`.",
            mandatory = True,
            providers = [KernelRegistryInfo],
        ),
    },
)
