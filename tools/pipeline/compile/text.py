"""Lines of C++: statements and comments, broken where they are long."""

import re
import textwrap

# The columns of a statement.
LINE = 108
# A space at which an argument may be broken.
BREAK = "\1"


def wrapped(statement: str, indent: str = "  ") -> list[str]:
    """Wraps a statement's lines between arguments of the outermost call, but not inside comments."""
    text, depth = "", 0
    statement = re.sub(r" /\*.*?\*/", lambda remark: remark[0].replace(" ", "\0"), statement)
    # A brace stays with what it belongs to.
    statement = statement.replace("<const ", "<const\0").replace(") {", ")\0{").replace(" + ", "\0+\0")
    outer = 2 if statement.startswith("if") else 1
    for character in statement:
        depth += (character in "([{") - (character in ")]}")
        text += "\0" if character == " " and depth > outer else character
    lines = textwrap.wrap(
        text.replace(BREAK, " "),
        LINE,
        initial_indent=indent,
        subsequent_indent=f"{indent}    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in lines]


def comment(text: str, indent: str = "  ") -> list[str]:
    """Returns a comment's lines, without breaks inside shapes."""
    start = f"{indent}// "
    # A backslash would join the next line.
    text = re.sub(r"\[[\d, ]*\]", lambda shape: shape[0].replace(" ", "\0"), text.replace("\\", "/"))
    lines = textwrap.wrap(text, 110, initial_indent=start, subsequent_indent=start, break_long_words=False)
    return [line.replace("\0", " ") for line in lines]


def is_remark(line: str) -> bool:
    """Whether a line is a comment or a hook, which contain names from the user."""
    return line.lstrip().startswith(("//", "TORCH_FUSION_LAYER("))
