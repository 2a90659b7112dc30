"""Payloads for tests, written by hand."""

import struct
from collections.abc import Mapping, Sequence


def payload_of(blocks: Mapping[str, bytes]) -> bytes:
    """Returns the payload of the blocks; a last one that has no bytes ends it."""
    content = {"vela_bin_stream": b"", **blocks, "vela_end_stream": b""}
    return b"".join(
        struct.pack("<16sI12x", name.encode(), len(data)) + data + bytes(-len(data) % 16)
        for name, data in content.items()
    )


def command_data(words: Sequence[int], config: int) -> bytes:
    """Returns the block of a command stream, for the NPU with this CONFIG."""
    # Three words of nothing, so that the commands are aligned.
    driver_words = 1, config, 0, 5, 5, 5, 2 | (len(words) >> 16) << 8 | (len(words) & 0xFFFF) << 16
    return struct.pack(f"<4s7I{len(words)}I", b"COP1", *driver_words, *words)
