"""The networks of this folder, and the boards that each is tested on in float32 and in int8."""

load("//firmware/boards:boards.bzl", "LARGE_SIMULATED_BOARDS", "SIMULATED_BOARDS", "VECTOR_BOARDS")

# Networks that fit into less memory are tested on the smallest board.
_SMALL = SIMULATED_BOARDS[:1]

ARCHITECTURES = {
    # A network over time of causal convolutions, for sensors.
    "causal_convolution": struct(float32 = _SMALL, int8 = _SMALL + VECTOR_BOARDS),
    # Convolutions of groups of channels, which are mixed by moving them about.
    "channel_shuffle": struct(float32 = [], int8 = _SMALL + VECTOR_BOARDS),
    # Spectrum and logarithm of a signal, as features.
    "spectrogram": struct(float32 = _SMALL, int8 = []),
    # Attention over the patches of an image.
    "transformer": struct(float32 = LARGE_SIMULATED_BOARDS, int8 = _SMALL),
    # An image in, an image out.
    "unet": struct(float32 = _SMALL, int8 = LARGE_SIMULATED_BOARDS),
}
