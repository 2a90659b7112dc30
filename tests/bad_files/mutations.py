"""Damages a file: bytes changed, lost, doubled and moved, values of JSON and YAML, and members of archives.

All is seeded, so that a failure comes again.
"""

import copy
import io
import json
import math
import random
import zipfile
from collections.abc import Iterator
from typing import Any

_NUMBERS = [0, 1, -1, 2, 255, 256, 2**31 - 1, 2**31, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e308, math.inf, math.nan]
_OTHERS = ["", "a\nb", "\0", "\u00e9\U0001f600", "../../x", "12", True, False, None, [], {}, [[]], [None], {"": 0}]


def mutated_bytes(data: bytes, count: int, seed: int = 1) -> Iterator[bytes]:
    """Yields versions of a file with one to four changes to its bytes, and a few files that are something else."""
    yield b""
    yield b"\0" * len(data)
    yield data * 2
    chance = random.Random(seed)
    for _ in range(count):
        changed = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(changed) + 1)
            length = chance.choice([1, 1, 2, 4, chance.randrange(64)])
            match chance.randrange(7):
                case 0:
                    changed[at : at + 1] = bytes([chance.randrange(256)])
                case 1:
                    changed[at : at + 1] = bytes([changed[at] ^ 1 << chance.randrange(8)]) if at < len(changed) else b""
                case 2:
                    del changed[at : at + length]
                case 3:
                    changed[at:at] = chance.randbytes(length)
                case 4:
                    changed[at:at] = changed[at : at + length]
                case 5:
                    changed[at : at + 4] = chance.choice([0, 1, 2**31 - 1, 2**32 - 1, len(data)]).to_bytes(4, "little")
                case 6:
                    del changed[at:]
        yield bytes(changed)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield from _paths(entry, (*path, key))


def mutated_value(value: Any, count: int, seed: int = 1) -> Iterator[Any]:
    """Yields versions of what JSON or YAML holds, with one to three values replaced, left out, doubled or moved."""
    chance = random.Random(seed)
    for _ in range(count):
        changed = copy.deepcopy(value)
        for _ in range(chance.randint(1, 3)):
            paths = list(_paths(changed))
            path = chance.choice(paths)
            if not path:
                changed = copy.deepcopy(chance.choice([*_NUMBERS, *_OTHERS])) if chance.randrange(20) == 0 else changed
                continue
            holder = changed
            for key in path[:-1]:
                holder = holder[key]
            match chance.randrange(6):
                case 0 | 1:
                    holder[path[-1]] = chance.choice(_NUMBERS)
                case 2:
                    holder[path[-1]] = copy.deepcopy(chance.choice(_OTHERS))
                case 3:
                    del holder[path[-1]]
                case 4:
                    other = changed
                    for key in chance.choice(paths):
                        other = other[key]
                    holder[path[-1]] = copy.deepcopy(other)
                case 5:
                    if isinstance(holder, list):
                        holder.insert(path[-1], copy.deepcopy(holder[path[-1]]))
                    else:
                        holder[f"{path[-1]}2"] = holder.pop(path[-1])
        yield changed


def mutated_members(data: bytes, count: int, seed: int = 1) -> Iterator[bytes]:
    """Yields versions of a .zip archive, each with one damaged member, whose checksum is right."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    chance = random.Random(seed)
    for _ in range(count):
        name = chance.choice(list(members))
        content, number = members[name], chance.randrange(1 << 30)
        try:
            changed = json.dumps(next(mutated_value(json.loads(content), 1, number))).encode()
        except ValueError:
            *_, changed = mutated_bytes(content, 1, number)
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for other, unchanged in members.items():
                archive.writestr(other, changed if other == name else unchanged)
        yield file.getvalue()
