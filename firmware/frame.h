#pragma once

#include <stddef.h>
#include <stdint.h>

/// Frames on the console's stream of bytes, which may lose, double or change some of them. A frame
/// is its payload and the payload's CRC-32, little-endian, both together encoded by COBS, so that
/// they hold no zero, between two zeros. A frame that is not intact is dropped; its sender notices
/// that no answer comes. COBS: Cheshire and Baker, "Consistent Overhead Byte Stuffing", IEEE/ACM
/// Transactions on Networking 7(2), 1999, section III. CRC-32: IEEE 802.3, section 3.2.9.

#ifdef __cplusplus
extern "C" {
#endif

/// Bytes that framing adds to a payload of up to 250 bytes while a frame is received: the CRC and
/// one code byte. Every further 254 bytes add one.
enum { kFrameOverhead = 5 };

/// The CRC-32 of `data`, going on from that of what comes before it; 0 at the start.
uint32_t frame_crc32(uint32_t crc, const void* data, size_t size);

/// Waits for the next intact frame. The stream is expected to be just after a zero.
/// @param buffer for the frame as it is received; afterwards it holds the payload.
/// @param capacity bytes of buffer: those of the longest payload and what framing adds to it. A
/// longer frame is dropped.
/// @returns bytes of the payload, at least 1.
size_t frame_receive(uint8_t* buffer, size_t capacity);

/// Sends a frame. The four bytes after the payload must be writable: the CRC goes there.
void frame_send(uint8_t* payload, size_t size);

#ifdef __cplusplus
}
#endif
