#include "cjpeg.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

/* ---- Errors ------------------------------------------------------------------------------- */

typedef struct error_manager {
  struct jpeg_error_mgr base; /* first: libjpeg hands back a pointer to it */
  jmp_buf escape;
  cjpeg_status status;
  char message[JMSG_LENGTH_MAX];
} error_manager;

static cjpeg_status status_of(int code) {
  switch (code) {
    case JERR_OUT_OF_MEMORY:
      return CJPEG_NO_MEMORY;
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CCIR601_NOTIMPL:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_IMAGE_TOO_BIG:
    case JERR_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_SOF_UNSUPPORTED:
    case JERR_WIDTH_OVERFLOW:
      return CJPEG_UNSUPPORTED;
    default:
      return CJPEG_CORRUPT;
  }
}

static void leave(j_common_ptr cinfo, cjpeg_status status) {
  error_manager *errors = (error_manager *)cinfo->err;
  errors->status = status;
  errors->base.format_message(cinfo, errors->message);
  longjmp(errors->escape, 1);
}

static void on_error(j_common_ptr cinfo) { leave(cinfo, status_of(cinfo->err->msg_code)); }

static void on_message(j_common_ptr cinfo, int level) {
  if (level >= 0) return; /* a trace message */
  switch (cinfo->err->msg_code) {
    case JWRN_ARITH_BAD_CODE:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_JPEG_EOF:
    case JWRN_MUST_RESYNC:
      /* libjpeg would go on with grey: the picture is not all there. */
      leave(cinfo, CJPEG_CORRUPT);
      break;
    default:
      cinfo->err->num_warnings++;
  }
}

static void on_output(j_common_ptr cinfo) { (void)cinfo; /* nothing is ever printed */ }

static struct jpeg_error_mgr *error_manager_init(error_manager *errors) {
  jpeg_std_error(&errors->base);
  errors->base.error_exit = on_error;
  errors->base.emit_message = on_message;
  errors->base.output_message = on_output;
  errors->status = CJPEG_OK;
  errors->message[0] = 0;
  return &errors->base;
}

/* ---- Decoding ----------------------------------------------------------------------------- */

struct cjpeg_decoder {
  struct jpeg_decompress_struct cinfo;
  error_manager errors;
};

cjpeg_decoder *cjpeg_decoder_new(const uint8_t *data, size_t size) {
  cjpeg_decoder *decoder = calloc(1, sizeof *decoder);
  if (!decoder) return NULL;
  decoder->cinfo.err = error_manager_init(&decoder->errors);
  if (setjmp(decoder->errors.escape)) {
    cjpeg_decoder_free(decoder);
    return NULL;
  }
  jpeg_create_decompress(&decoder->cinfo);
  jpeg_mem_src(&decoder->cinfo, data, size);
  return decoder;
}

void cjpeg_decoder_free(cjpeg_decoder *decoder) {
  if (!decoder) return;
  jpeg_destroy_decompress(&decoder->cinfo);
  free(decoder);
}

const char *cjpeg_decoder_message(const cjpeg_decoder *decoder) { return decoder->errors.message; }

static cjpeg_color color_of(J_COLOR_SPACE space) {
  switch (space) {
    case JCS_GRAYSCALE:
      return CJPEG_COLOR_GRAY;
    case JCS_YCbCr:
      return CJPEG_COLOR_YCBCR;
    case JCS_RGB:
      return CJPEG_COLOR_RGB;
    case JCS_CMYK:
    case JCS_YCCK:
      return CJPEG_COLOR_CMYK;
    default:
      return CJPEG_COLOR_OTHER;
  }
}

static void fill_header(const struct jpeg_decompress_struct *cinfo, cjpeg_header *header) {
  memset(header, 0, sizeof *header);
  header->width = (int)cinfo->image_width;
  header->height = (int)cinfo->image_height;
  header->component_count = cinfo->num_components;
  header->color = color_of(cinfo->jpeg_color_space);
  header->max_h_samp = cinfo->max_h_samp_factor;
  header->max_v_samp = cinfo->max_v_samp_factor;
  header->output_width = (int)cinfo->output_width;
  header->output_height = (int)cinfo->output_height;
  for (int i = 0; i < cinfo->num_components && i < CJPEG_MAX_COMPONENTS; i++) {
    const jpeg_component_info *info = &cinfo->comp_info[i];
    cjpeg_component *component = &header->components[i];
    component->h_samp = info->h_samp_factor;
    component->v_samp = info->v_samp_factor;
    component->block_size = info->DCT_scaled_size;
    component->width = (int)info->downsampled_width;
    component->height = (int)info->downsampled_height;
    component->padded_width = (int)info->width_in_blocks * info->DCT_scaled_size;
    component->padded_height = (int)info->height_in_blocks * info->DCT_scaled_size;
  }
}

cjpeg_status cjpeg_decoder_read_header(cjpeg_decoder *decoder, cjpeg_header *header) {
  if (setjmp(decoder->errors.escape)) return decoder->errors.status;
  jpeg_read_header(&decoder->cinfo, TRUE);
  fill_header(&decoder->cinfo, header);
  return CJPEG_OK;
}

cjpeg_status cjpeg_decoder_start(cjpeg_decoder *decoder, int raw, int denominator,
                                 cjpeg_header *header) {
  struct jpeg_decompress_struct *cinfo = &decoder->cinfo;
  if (setjmp(decoder->errors.escape)) return decoder->errors.status;
  cinfo->scale_num = 1;
  cinfo->scale_denom = (unsigned)denominator;
  cinfo->dct_method = JDCT_ISLOW; /* the same result with and without SIMD */
  cinfo->do_block_smoothing = FALSE;
  if (raw) {
    cinfo->raw_data_out = TRUE;
    cinfo->out_color_space = cinfo->jpeg_color_space;
  } else {
    cinfo->out_color_space = JCS_CMYK;
  }
  jpeg_start_decompress(cinfo);
  fill_header(cinfo, header);
  return CJPEG_OK;
}

/* Rows one call of jpeg_read_raw_data may write to one component: 4 blocks of 8. */
enum { MAX_ROWS = 32 };

cjpeg_status cjpeg_decoder_read_planes(cjpeg_decoder *decoder, const cjpeg_plane *planes) {
  struct jpeg_decompress_struct *cinfo = &decoder->cinfo;
  if (setjmp(decoder->errors.escape)) return decoder->errors.status;

  /* Rows below a plane's last whole block go here and are forgotten. */
  size_t widest = 0;
  for (int i = 0; i < cinfo->num_components; i++) {
    size_t width = (size_t)cinfo->comp_info[i].width_in_blocks * DCTSIZE;
    if (width > widest) widest = width;
  }
  JSAMPROW scratch =
      (JSAMPROW)cinfo->mem->alloc_large((j_common_ptr)cinfo, JPOOL_IMAGE, widest);

  JSAMPROW rows[CJPEG_MAX_COMPONENTS][MAX_ROWS];
  JSAMPARRAY arrays[CJPEG_MAX_COMPONENTS];
  int next[CJPEG_MAX_COMPONENTS] = {0};
  const JDIMENSION lines = (JDIMENSION)(cinfo->max_v_samp_factor * cinfo->min_DCT_scaled_size);
  while (cinfo->output_scanline < cinfo->output_height) {
    for (int i = 0; i < cinfo->num_components; i++) {
      const jpeg_component_info *info = &cinfo->comp_info[i];
      const int count = info->v_samp_factor * info->DCT_scaled_size;
      const int height = planes ? (int)info->height_in_blocks * info->DCT_scaled_size : 0;
      for (int row = 0; row < count; row++) {
        rows[i][row] = next[i] + row < height
                           ? planes[i].data + (size_t)(next[i] + row) * planes[i].stride
                           : scratch;
      }
      next[i] += count;
      arrays[i] = rows[i];
    }
    jpeg_read_raw_data(cinfo, arrays, lines);
  }
  return CJPEG_OK;
}

cjpeg_status cjpeg_decoder_read_row(cjpeg_decoder *decoder, uint8_t *row) {
  if (setjmp(decoder->errors.escape)) return decoder->errors.status;
  JSAMPROW rows[1] = {row};
  jpeg_read_scanlines(&decoder->cinfo, rows, 1);
  return CJPEG_OK;
}

cjpeg_status cjpeg_decoder_finish(cjpeg_decoder *decoder) {
  if (setjmp(decoder->errors.escape)) return decoder->errors.status;
  jpeg_finish_decompress(&decoder->cinfo);
  return CJPEG_OK;
}

/* ---- Encoding ----------------------------------------------------------------------------- */

/*
 * A destination that owns one growing buffer. libjpeg's jpeg_mem_dest loses track of its buffer
 * when an error leaves the encoder half way.
 */
typedef struct memory_destination {
  struct jpeg_destination_mgr base;
  uint8_t *data;
  size_t capacity;
} memory_destination;

static void grow(j_compress_ptr cinfo, size_t used) {
  memory_destination *destination = (memory_destination *)cinfo->dest;
  size_t capacity = destination->capacity ? destination->capacity * 2 : (size_t)1 << 16;
  uint8_t *data = realloc(destination->data, capacity);
  if (!data) ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 10);
  destination->data = data;
  destination->capacity = capacity;
  destination->base.next_output_byte = data + used;
  destination->base.free_in_buffer = capacity - used;
}

static void init_destination(j_compress_ptr cinfo) { grow(cinfo, 0); }

static boolean empty_output_buffer(j_compress_ptr cinfo) {
  /* The whole buffer is full, whatever free_in_buffer says (libjpeg.txt). */
  grow(cinfo, ((memory_destination *)cinfo->dest)->capacity);
  return TRUE;
}

static void term_destination(j_compress_ptr cinfo) { (void)cinfo; }

typedef struct encoder {
  struct jpeg_compress_struct cinfo;
  error_manager errors;
  memory_destination destination;
} encoder;

/* NULL, with an empty output, when there is no memory; else for encoder_end to free. */
static encoder *encoder_new(cjpeg_output *output) {
  encoder *state = calloc(1, sizeof *state);
  if (!state) {
    memset(output, 0, sizeof *output);
    return NULL;
  }
  state->cinfo.err = error_manager_init(&state->errors);
  state->destination.base.init_destination = init_destination;
  state->destination.base.empty_output_buffer = empty_output_buffer;
  state->destination.base.term_destination = term_destination;
  return state;
}

static cjpeg_status encoder_end(encoder *state, cjpeg_status status, cjpeg_output *output) {
  memset(output, 0, sizeof *output);
  if (status == CJPEG_OK) {
    output->data = state->destination.data;
    output->size = state->destination.capacity - state->destination.base.free_in_buffer;
  } else {
    free(state->destination.data);
    memcpy(output->message, state->errors.message, sizeof output->message - 1);
  }
  jpeg_destroy_compress(&state->cinfo);
  free(state);
  return status;
}

void cjpeg_output_free(cjpeg_output *output) {
  free(output->data);
  output->data = NULL;
  output->size = 0;
}

static void configure(encoder *state, const cjpeg_plane *first, int input_components,
                      J_COLOR_SPACE input, int h_samp, int v_samp, int quality) {
  struct jpeg_compress_struct *cinfo = &state->cinfo;
  jpeg_create_compress(cinfo);
  cinfo->dest = &state->destination.base;
  cinfo->image_width = (JDIMENSION)first->width;
  cinfo->image_height = (JDIMENSION)first->height;
  cinfo->input_components = input_components;
  cinfo->in_color_space = input;
  jpeg_set_defaults(cinfo);
  jpeg_set_quality(cinfo, quality, TRUE);
  cinfo->dct_method = JDCT_ISLOW;
  cinfo->comp_info[0].h_samp_factor = h_samp;
  cinfo->comp_info[0].v_samp_factor = v_samp;
}

/* Repeats each row's last sample up to a whole block, so that no foreign edge is encoded. */
static void extend_right(const cjpeg_plane *plane) {
  const int padded = (plane->width + DCTSIZE - 1) / DCTSIZE * DCTSIZE;
  if (padded == plane->width) return;
  for (int y = 0; y < plane->height; y++) {
    uint8_t *row = plane->data + (size_t)y * plane->stride;
    memset(row + plane->width, row[plane->width - 1], (size_t)(padded - plane->width));
  }
}

cjpeg_status cjpeg_encode_planes(const cjpeg_plane *planes, int plane_count, int h_samp,
                                 int v_samp, int quality, cjpeg_output *output) {
  encoder *state = encoder_new(output);
  if (!state) return CJPEG_NO_MEMORY;
  if (setjmp(state->errors.escape)) return encoder_end(state, state->errors.status, output);

  struct jpeg_compress_struct *cinfo = &state->cinfo;
  configure(state, planes, plane_count, plane_count == 1 ? JCS_GRAYSCALE : JCS_YCbCr, h_samp,
            v_samp, quality);
  cinfo->raw_data_in = TRUE;
  for (int i = 0; i < plane_count; i++) extend_right(&planes[i]);
  jpeg_start_compress(cinfo, TRUE);

  JSAMPROW rows[3][MAX_ROWS];
  JSAMPARRAY arrays[3] = {rows[0], rows[1], rows[2]};
  int next[3] = {0};
  while (cinfo->next_scanline < cinfo->image_height) {
    for (int i = 0; i < plane_count; i++) {
      const int count = cinfo->comp_info[i].v_samp_factor * DCTSIZE;
      for (int row = 0; row < count; row++) {
        int y = next[i] + row;
        if (y >= planes[i].height) y = planes[i].height - 1;
        rows[i][row] = planes[i].data + (size_t)y * planes[i].stride;
      }
      next[i] += count;
    }
    jpeg_write_raw_data(cinfo, arrays, (JDIMENSION)(cinfo->max_v_samp_factor * DCTSIZE));
  }
  jpeg_finish_compress(cinfo);
  return encoder_end(state, CJPEG_OK, output);
}

cjpeg_status cjpeg_encode_rgb(const cjpeg_plane *planes, int h_samp, int v_samp, int quality,
                              cjpeg_output *output) {
  encoder *state = encoder_new(output);
  if (!state) return CJPEG_NO_MEMORY;
  if (setjmp(state->errors.escape)) return encoder_end(state, state->errors.status, output);

  struct jpeg_compress_struct *cinfo = &state->cinfo;
  configure(state, planes, 3, JCS_RGB, h_samp, v_samp, quality);
  jpeg_start_compress(cinfo, TRUE);
  const size_t width = (size_t)planes[0].width;
  JSAMPROW row =
      (JSAMPROW)cinfo->mem->alloc_large((j_common_ptr)cinfo, JPOOL_IMAGE, width * 3);
  for (int y = 0; y < planes[0].height; y++) {
    const uint8_t *r = planes[0].data + (size_t)y * planes[0].stride;
    const uint8_t *g = planes[1].data + (size_t)y * planes[1].stride;
    const uint8_t *b = planes[2].data + (size_t)y * planes[2].stride;
    for (size_t x = 0; x < width; x++) {
      row[3 * x] = r[x];
      row[3 * x + 1] = g[x];
      row[3 * x + 2] = b[x];
    }
    jpeg_write_scanlines(cinfo, &row, 1);
  }
  jpeg_finish_compress(cinfo);
  return encoder_end(state, CJPEG_OK, output);
}

/* ---- Turning ------------------------------------------------------------------------------ */

/* Mirroring a block of samples changes the sign of every odd frequency along that axis. */
static void turn_block(const JCOEF *from, JCOEF *to, int transpose, int mirror_x, int mirror_y) {
  for (int v = 0; v < DCTSIZE; v++) {
    for (int u = 0; u < DCTSIZE; u++) {
      const JCOEF value = from[v * DCTSIZE + u];
      const int negative = (mirror_x & u & 1) ^ (mirror_y & v & 1);
      to[transpose ? u * DCTSIZE + v : v * DCTSIZE + u] = (JCOEF)(negative ? -value : value);
    }
  }
}

/* Fills a component of the turned picture, a row of its blocks at a time. */
static void turn_component(j_decompress_ptr source, jvirt_barray_ptr from, j_compress_ptr target,
                           jvirt_barray_ptr to, int index, int transpose, int mirror_x,
                           int mirror_y) {
  const jpeg_component_info *stored = &source->comp_info[index];
  const JDIMENSION columns = stored->width_in_blocks, rows = stored->height_in_blocks;
  const JDIMENSION out_columns = transpose ? rows : columns;
  const JDIMENSION out_rows = transpose ? columns : rows;
  for (JDIMENSION y = 0; y < out_rows; y++) {
    JBLOCKROW out =
        target->mem->access_virt_barray((j_common_ptr)target, to, y, 1, TRUE)[0];
    if (!transpose) {
      const JDIMENSION row = mirror_y ? rows - 1 - y : y;
      JBLOCKROW in = source->mem->access_virt_barray((j_common_ptr)source, from, row, 1, FALSE)[0];
      for (JDIMENSION x = 0; x < columns; x++) {
        turn_block(in[mirror_x ? columns - 1 - x : x], out[x], 0, mirror_x, mirror_y);
      }
      continue;
    }
    const JDIMENSION column = mirror_x ? columns - 1 - y : y;
    for (JDIMENSION x = 0; x < out_columns; x++) {
      const JDIMENSION row = mirror_y ? rows - 1 - x : x;
      JBLOCKROW in = source->mem->access_virt_barray((j_common_ptr)source, from, row, 1, FALSE)[0];
      turn_block(in[column], out[x], 1, mirror_x, mirror_y);
    }
  }
}

/* Exchanges what belongs to the axes: sizes, sampling factors and quantisation. */
static void exchange_axes(j_compress_ptr cinfo) {
  const JDIMENSION width = cinfo->image_width;
  cinfo->image_width = cinfo->image_height;
  cinfo->image_height = width;
  for (int i = 0; i < cinfo->num_components; i++) {
    jpeg_component_info *info = &cinfo->comp_info[i];
    const int factor = info->h_samp_factor;
    info->h_samp_factor = info->v_samp_factor;
    info->v_samp_factor = factor;
  }
  for (int i = 0; i < NUM_QUANT_TBLS; i++) {
    JQUANT_TBL *table = cinfo->quant_tbl_ptrs[i];
    for (int v = 1; table && v < DCTSIZE; v++) {
      for (int u = 0; u < v; u++) {
        const UINT16 value = table->quantval[v * DCTSIZE + u];
        table->quantval[v * DCTSIZE + u] = table->quantval[u * DCTSIZE + v];
        table->quantval[u * DCTSIZE + v] = value;
      }
    }
  }
}

cjpeg_status cjpeg_turn(cjpeg_decoder *decoder, int transpose, int mirror_x, int mirror_y,
                        cjpeg_output *output) {
  struct jpeg_decompress_struct *source = &decoder->cinfo;
  encoder *state = encoder_new(output);
  if (!state) return CJPEG_NO_MEMORY;
  struct jpeg_compress_struct *target = &state->cinfo;
  if (setjmp(state->errors.escape)) return encoder_end(state, state->errors.status, output);
  if (setjmp(decoder->errors.escape)) {
    memcpy(state->errors.message, decoder->errors.message, sizeof state->errors.message);
    return encoder_end(state, decoder->errors.status, output);
  }

  jvirt_barray_ptr *stored = jpeg_read_coefficients(source);
  jpeg_create_compress(target);
  target->dest = &state->destination.base;
  jpeg_copy_critical_parameters(source, target);
  if (transpose) exchange_axes(target);
  /* The standard tables would make well-packed files larger than they were. */
  target->optimize_coding = TRUE;

  jvirt_barray_ptr turned[CJPEG_MAX_COMPONENTS];
  for (int i = 0; i < source->num_components; i++) {
    const jpeg_component_info *info = &source->comp_info[i];
    const jpeg_component_info *out = &target->comp_info[i];
    const JDIMENSION across = transpose ? info->height_in_blocks : info->width_in_blocks;
    const JDIMENSION down = transpose ? info->width_in_blocks : info->height_in_blocks;
    const JDIMENSION h = (JDIMENSION)out->h_samp_factor, v = (JDIMENSION)out->v_samp_factor;
    turned[i] = target->mem->request_virt_barray((j_common_ptr)target, JPOOL_IMAGE, TRUE,
                                                 (across + h - 1) / h * h,
                                                 (down + v - 1) / v * v, v);
  }
  jpeg_write_coefficients(target, turned); /* makes the arrays; they are read at the end */
  for (int i = 0; i < source->num_components; i++) {
    turn_component(source, stored[i], target, turned[i], i, transpose, mirror_x, mirror_y);
  }
  jpeg_finish_decompress(source);
  jpeg_finish_compress(target);
  return encoder_end(state, CJPEG_OK, output);
}

#define STRING_OF(x) #x
#define STRING(x) STRING_OF(x)

const char *cjpeg_version(void) {
#ifdef LIBJPEG_TURBO_VERSION
  return "libjpeg-turbo " STRING(LIBJPEG_TURBO_VERSION);
#else
  return "libjpeg " STRING(JPEG_LIB_VERSION);
#endif
}
