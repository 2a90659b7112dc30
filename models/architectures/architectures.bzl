"""The networks of this folder, and the boards that each is tested on in float32 and in int8."""

load("//firmware/boards:boards.bzl", "SIMULATED_BOARDS")

_NUCLEO = ["//firmware/boards/nucleo_wb55rg"]
_PICO = ["//firmware/boards/pico2_w"]
_MVE = ["//firmware/boards/mps3_an547"]

ARCHITECTURES = {
    # A network over time of causal convolutions, for sensors.
    "causal_convolution": struct(float32 = _NUCLEO, int8 = SIMULATED_BOARDS + _MVE),
    # Convolutions of groups of channels, which are mixed by moving them about.
    "channel_shuffle": struct(float32 = [], int8 = _NUCLEO + _MVE),
    # Spectrum and logarithm of a signal, as features.
    "spectrogram": struct(float32 = _NUCLEO, int8 = []),
    # Attention over the patches of an image.
    "transformer": struct(float32 = _PICO, int8 = _NUCLEO),
    # An image in, an image out.
    "unet": struct(float32 = _NUCLEO, int8 = _PICO),
}
