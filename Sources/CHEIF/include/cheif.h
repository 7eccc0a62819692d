/*
 * cheif.h - libheif, found at run time.
 *
 * Nothing here is linked: the library is opened by name or path and its functions are looked up, so
 * that a machine without it lacks HEIC and AVIF and nothing else. The prototypes are those of
 * libheif's stable C interface, 1.11 and later.
 */
#ifndef OPENFM_CHEIF_H
#define OPENFM_CHEIF_H

#include <stddef.h>
#include <stdint.h>

typedef enum cheif_status {
  CHEIF_OK = 0,
  CHEIF_CORRUPT = 1,
  CHEIF_UNSUPPORTED = 2, /* a codec or feature that this libheif lacks */
  CHEIF_NO_MEMORY = 3
} cheif_status;

typedef enum cheif_codec { CHEIF_HEVC = 1, CHEIF_AV1 = 4 } cheif_codec;

typedef struct cheif_library cheif_library;

/* Opens the library for the rest of the process. NULL: `why` says what failed. */
cheif_library *cheif_library_open(const char *file, char *why, size_t size);

int cheif_library_decodes(const cheif_library *library, cheif_codec codec);

typedef struct cheif_header {
  /* As stored, before the turns and crops that the file asks for ... */
  int stored_width;
  int stored_height;
  /* ... and after them. */
  int width;
  int height;
  int bits; /* of a sample; more than 8 is decoded to 16 */
  int has_alpha;
  int is_premultiplied;
  size_t profile_size; /* of the ICC profile; 0: none */
} cheif_header;

typedef struct cheif_picture cheif_picture;

/*
 * Reads the header of the primary picture; decodes nothing. The bytes must outlive the picture. On
 * failure *status and `why` are set. Free with cheif_picture_free.
 */
cheif_picture *cheif_picture_open(const cheif_library *library, const uint8_t *data, size_t size,
                                  cheif_header *header, cheif_status *status, char *why,
                                  size_t why_size);
void cheif_picture_free(cheif_picture *picture);

/* Copies the ICC profile, header.profile_size bytes. */
cheif_status cheif_picture_profile(cheif_picture *picture, uint8_t *profile);

typedef struct cheif_pixels {
  /* Rows of R, G, B or R, G, B, A; samples of 8 bits, or of `bits` in 16, the low byte first.
     They live as long as the picture. */
  const uint8_t *data;
  size_t stride;
  int width;
  int height;
  int bits;
} cheif_pixels;

/* Decodes, with the file's turns and crops or without them. */
cheif_status cheif_picture_decode(cheif_picture *picture, int as_stored, cheif_pixels *pixels,
                                  char *why, size_t why_size);

#endif
