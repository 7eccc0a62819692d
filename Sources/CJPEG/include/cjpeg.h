/*
 * cjpeg.h - libjpeg-turbo's own API behind functions that Swift can call.
 *
 * libjpeg leaves an error by longjmp, which must never cross a Swift frame: every function here
 * sets its own jump target and returns a status. Warnings that mean damaged or missing scan data
 * end the call too; harmless ones (extraneous bytes, odd JFIF or Adobe markers) are passed over.
 */
#ifndef OPENFM_CJPEG_H
#define OPENFM_CJPEG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum cjpeg_status {
  CJPEG_OK = 0,
  CJPEG_CORRUPT = 1,     /* damaged or cut short */
  CJPEG_UNSUPPORTED = 2, /* a JPEG process that libjpeg-turbo does not decode */
  CJPEG_NO_MEMORY = 3
} cjpeg_status;

typedef enum cjpeg_color {
  CJPEG_COLOR_OTHER = 0,
  CJPEG_COLOR_GRAY = 1,
  CJPEG_COLOR_YCBCR = 2,
  CJPEG_COLOR_RGB = 3,
  CJPEG_COLOR_CMYK = 4, /* CMYK, or YCCK that libjpeg turns into it */
} cjpeg_color;

enum { CJPEG_MAX_COMPONENTS = 4 };

typedef struct cjpeg_component {
  int h_samp; /* sampling factors, 1 to 4 */
  int v_samp;
  /* Set by cjpeg_decoder_start: samples on a block's side; 8 is full size ... */
  int block_size;
  /* ... samples that belong to the picture ... */
  int width;
  int height;
  /* ... and what is written, whole blocks. */
  int padded_width;
  int padded_height;
} cjpeg_component;

typedef struct cjpeg_header {
  int width;
  int height;
  int component_count;
  cjpeg_color color;
  int max_h_samp;
  int max_v_samp;
  /* Set by cjpeg_decoder_start: size of the scaled picture. */
  int output_width;
  int output_height;
  /* Set by it too: chroma has fewer samples than libjpeg would have given it. */
  int is_reduced;
  cjpeg_component components[CJPEG_MAX_COMPONENTS];
} cjpeg_header;

typedef struct cjpeg_plane {
  uint8_t *data;
  size_t stride;
  int width;
  int height;
} cjpeg_plane;

/* ---- Decoding ----------------------------------------------------------------------------- */

typedef struct cjpeg_decoder cjpeg_decoder;

/* The bytes must outlive the decoder. NULL: no memory. Free with cjpeg_decoder_free. */
cjpeg_decoder *cjpeg_decoder_new(const uint8_t *data, size_t size);
void cjpeg_decoder_free(cjpeg_decoder *decoder);

/* libjpeg's words about the last failure; alive as long as the decoder. */
const char *cjpeg_decoder_message(const cjpeg_decoder *decoder);

/* Harmless oddities that were passed over so far. */
int cjpeg_decoder_warning_count(const cjpeg_decoder *decoder);

/* Whether bytes that belong to nothing were passed over so far from the first scan on. */
bool cjpeg_decoder_has_foreign_bytes(const cjpeg_decoder *decoder);

cjpeg_status cjpeg_decoder_read_header(cjpeg_decoder *decoder, cjpeg_header *header);

typedef enum cjpeg_form {
  /* Interleaved CMYK, for cjpeg_decoder_read_row. */
  CJPEG_ROWS = 0,
  /* The components as stored, without upsampling or colour conversion, for
   * cjpeg_decoder_read_planes. Scaled down, subsampled chroma has up to the luma's size. */
  CJPEG_PLANES = 1,
  /* The same with all components scaled alike, which costs less. */
  CJPEG_SMALL_PLANES = 2
} cjpeg_form;

/* Starts decoding at 1/denominator: 1, 2, 4 or 8. */
cjpeg_status cjpeg_decoder_start(cjpeg_decoder *decoder, cjpeg_form form, int denominator,
                                 cjpeg_header *header);

/*
 * Decodes everything to the end of the picture. A plane holds at least padded_height rows of
 * padded_width bytes; `planes` NULL decodes for the sake of checking and keeps nothing.
 */
cjpeg_status cjpeg_decoder_read_planes(cjpeg_decoder *decoder, const cjpeg_plane *planes);

/* The next row, output_width x 4 bytes. */
cjpeg_status cjpeg_decoder_read_row(cjpeg_decoder *decoder, uint8_t *row);

/* Reads to the end-of-image marker; one that is missing is corrupt. */
cjpeg_status cjpeg_decoder_finish(cjpeg_decoder *decoder);

/* ---- Encoding ----------------------------------------------------------------------------- */

typedef struct cjpeg_output {
  uint8_t *data; /* free with cjpeg_output_free */
  size_t size;
  char message[200];
} cjpeg_output;

void cjpeg_output_free(cjpeg_output *output);

/*
 * Encodes gray (1 plane) or YCbCr (3 planes) samples as they are; chroma planes have
 * ceil(width / h_samp) x ceil(height / v_samp) samples. Strides are multiples of 8 and at least
 * the width rounded up to 8: the bytes right of the width are overwritten with the edge.
 */
cjpeg_status cjpeg_encode_planes(const cjpeg_plane *planes, int plane_count, int h_samp,
                                 int v_samp, int quality, cjpeg_output *output);

/* Encodes three planes of R, G, B, all of one size, as YCbCr with that chroma subsampling. */
cjpeg_status cjpeg_encode_rgb(const cjpeg_plane *planes, int h_samp, int v_samp, int quality,
                              cjpeg_output *output);

/* ---- Turning ------------------------------------------------------------------------------ */

/*
 * Turns the picture of a decoder whose header was read, without decoding it to samples: mirrored
 * left to right and top to bottom as asked, then with rows and columns exchanged. A side that is
 * mirrored must be a multiple of its minimum coded unit (8 x the largest sampling factor). Markers
 * other than JFIF's or Adobe's are left out. The decoder is used up. Memory: 2 bytes a sample.
 */
cjpeg_status cjpeg_turn(cjpeg_decoder *decoder, int transpose, int mirror_x, int mirror_y,
                        cjpeg_output *output);

/* "6.2 (libjpeg-turbo 2.1.5)"-like constant. */
const char *cjpeg_version(void);

#endif
