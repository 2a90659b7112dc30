"""Finds files in the Arm GNU toolchain."""

visibility(["//rules/..."])

def tools_of(files):
    """Returns the toolchain's programs by their short names, such as `gcc`.

    Args:
      files: list of Files of the toolchain.

    Returns:
      dict of Files
    """
    return {file.basename: file for file in files if file.dirname.endswith("/tools")}
