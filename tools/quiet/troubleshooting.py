"""Names where docs/troubleshooting.md says what to do about an error."""

# The names that the document has an anchor for, in lower case.
EXPLAINED = frozenset((
    "Abort", "AccessFailed", "ConvertedNumber", "DelegateInvalidCompatibility", "DependsOnValues", "DoesNotFit",
    "Fault", "InvalidArgument", "InvalidProgram", "InvalidState", "InvalidType", "MemoryAllocationFailed",
    "MissingPass", "NoDebugProbe", "NoFunction", "NoKernel", "NotFound", "NotSupported", "OperatorMissing",
    "StackOverflow", "StackTooSmall", "Timeout",
))  # fmt: skip


def more_about(name: str) -> str:
    """Returns where the documents say what to do about an error, as the end of a message; empty if they don't."""
    return f" (docs/troubleshooting.md#{name.lower()})" if name in EXPLAINED else ""
