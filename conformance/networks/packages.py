"""Files and speech of the packages that trained_published.py reads.

An export executes that file anew, this module is imported once per process: espeak-ng hangs or crashes when a process
initializes it again.
"""

import ctypes
import functools
import importlib.util
from pathlib import Path
from typing import Any

import numpy


def package_file(package: str, name: str) -> Path:
    """Returns a file of a package, which is not imported."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations, package
    return Path(spec.submodule_search_locations[0]) / name


@functools.cache
def _espeak() -> tuple[ctypes.CDLL, int]:
    """Returns the library of espeak-ng, and the rate of its samples in Hz."""
    library = ctypes.CDLL(str(package_file("espeakng_loader", "libespeak-ng.so")))
    # Synchronous retrieval in place of playback; without leaving the process where it fails.
    data = str(package_file("espeakng_loader", "espeak-ng-data")).encode()
    rate = library.espeak_Initialize(2, 500, data, 0x8000)
    library.espeak_SetVoiceByName(b"en")
    return library, rate


# The same text said again differs in length, so that each is said once.
@functools.cache
def speech(text: str, pitch: int, rate: int) -> numpy.ndarray:
    """Returns what espeak-ng says, at `rate` in Hz."""
    library, own_rate = _espeak()
    parts: list[numpy.ndarray] = []

    def take(samples: Any, count: int, _: Any) -> int:
        if samples and count > 0:
            parts.append(numpy.ctypeslib.as_array(samples, (count,)).copy())
        return 0

    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)(take)
    library.espeak_SetSynthCallback(callback)
    library.espeak_SetParameter(3, pitch, 0)
    said = text.encode()
    library.espeak_Synth(said, ctypes.c_size_t(len(said) + 1), 0, 1, 0, 1, None, None)
    sound = numpy.concatenate(parts) / 2**15
    places = numpy.arange(len(sound) * rate // own_rate) * own_rate / rate
    return numpy.interp(places, numpy.arange(len(sound)), sound) * 0.6
