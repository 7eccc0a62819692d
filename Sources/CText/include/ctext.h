/*
 * ctext.h - a look at many bytes of text at once, which C compilers make of a plain loop.
 */
#ifndef OPENFM_CTEXT_H
#define OPENFM_CTEXT_H

#include <stddef.h>
#include <stdint.h>

/*
 * Writes text as the inside of a JSON string (RFC 8259, section 7): a quote, a backslash and control
 * characters below 0x20 stand escaped, everything else as it is. Ends with the text, or before the
 * first byte that `room` has no place for; an escape is never cut. Returns how many of the `size`
 * bytes were read, `*written` how many were put at `target`.
 */
size_t ctext_escape(const uint8_t *source, size_t size, uint8_t *target, size_t room,
                    size_t *written);

/* How many bytes `ctext_escape` makes of the whole text. */
size_t ctext_escaped_size(const uint8_t *source, size_t size);

#endif
