"""Finds the registry from which packages of npm are fetched."""

def npm_url(rctx, package, version):
    """Returns the address of a package in the registry that this machine's npm uses, or in NPM_CONFIG_REGISTRY.

    Args:
      rctx: The repository rule's context.
      package: The package's name, with its scope.
      version: Its version.

    Returns:
      str.
    """
    named = rctx.getenv("NPM_CONFIG_REGISTRY") or rctx.getenv("npm_config_registry")
    npm = rctx.which("npm")
    if not named and npm:
        result = rctx.execute([npm, "config", "get", "registry"])
        named = result.stdout.strip() if not result.return_code else None
    if not named or not named.startswith("http"):
        fail("{}: this machine has no npm that knows its registry; install npm, or set NPM_CONFIG_REGISTRY to the registry's address.".format(rctx.name))
    return "{}/{}/-/{}-{}.tgz".format(named.removesuffix("/"), package, package.rpartition("/")[2], version)
