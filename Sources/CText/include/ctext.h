/*
 * ctext.h - a look at many bytes of text at once, which C compilers make of a plain loop.
 */
#ifndef OPENFM_CTEXT_H
#define OPENFM_CTEXT_H

#include <stddef.h>
#include <stdint.h>

/*
 * How many of the `size` bytes come before the first one that stands escaped in a JSON string: a
 * quote, a backslash or a control character below 0x20.
 */
size_t ctext_plain_length(const uint8_t *bytes, size_t size);

#endif
