#include <stdint.h>

/// The boot ROM looks for this in the first 4 KB of flash: a loop of one block with one item that
/// says that this is a secure Arm executable for the RP2350. Source: RP2350 datasheet, "Bootrom
/// Concepts", "Blocks and block loops", and "Minimum viable image metadata", "Minimum Arm
/// IMAGE_DEF". Without further items the vector table is at the start of the image.
__attribute__((section(".vectors.boot"), used)) static const uint32_t kImageDef[] = {
    0xFFFFDED3u, // PICOBIN_BLOCK_MARKER_START
    // Item IMAGE_TYPE (0x42), 1 word: EXE (1), secure (2 << 4), Arm (0 << 8), RP2350 (1 << 12).
    0x10210142u,
    0x000001FFu, // Item LAST (0xFF): 1 word of items before it
    0x00000000u, // Offset of the next block in bytes: this one
    0xAB123579u, // PICOBIN_BLOCK_MARKER_END
};
