/*
 * cbase64.h - base64 with the processor's vector instructions, which Swift has no names for.
 */
#ifndef OPENFM_CBASE64_H
#define OPENFM_CBASE64_H

#include <stddef.h>
#include <stdint.h>

/*
 * Encodes as much of the `size` bytes at `source` as goes into whole vectors and returns how many
 * bytes those were: a multiple of 3, 0 where the processor has no such instructions. Writes 4
 * characters to `target` for 3 bytes, and nothing beyond.
 */
size_t cbase64_encode_vectors(const uint8_t *source, size_t size, uint8_t *target);

#endif
