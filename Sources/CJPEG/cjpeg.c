#include "cjpeg.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <jpeglib.h>
#include <jerror.h>
#if __has_include(<jpegint.h>)
#include <jpegint.h>
#define CAN_REDUCE 1
#endif

/* ---- Errors ------------------------------------------------------------------------------- */

typedef struct error_manager {
  struct jpeg_error_mgr base; /* first: libjpeg hands back a pointer to it */
  jmp_buf escape;
  cjpeg_status status;
  bool has_foreign_bytes;
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
    case JWRN_EXTRANEOUS_DATA:
      /* Before the first scan they are between segments, where nobody takes them along. */
      if (((j_decompress_ptr)cinfo)->input_scan_number > 0)
        ((error_manager *)cinfo->err)->has_foreign_bytes = true;
      cinfo->err->num_warnings++;
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

/* ---- Coefficients ------------------------------------------------------------------------- */

/*
 * All of a component's coefficients, for progressive pictures and for turning, in place of what
 * libjpeg's memory manager would make: it clears memory that is clear already, in pages of 4 KB,
 * which costs as much as decoding them.
 */
typedef struct coefficients {
  JBLOCKARRAY rows;
  void *memory;
  size_t size;
} coefficients;

enum { HUGE_PAGE = 2 << 20 };

static int coefficients_make(coefficients *array, JDIMENSION columns, JDIMENSION rows) {
  array->rows = malloc(rows * sizeof *array->rows);
  if (!array->rows) return 0;
  array->size = (size_t)columns * rows * sizeof(JBLOCK);
  void *memory =
      mmap(NULL, array->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    array->size = 0;
    return 0;
  }
  array->memory = memory;
  /* A hint: where it is not taken, pages come one by one. */
  if (array->size >= 2 * HUGE_PAGE) madvise(memory, array->size, MADV_HUGEPAGE);
  for (JDIMENSION y = 0; y < rows; y++) array->rows[y] = (JBLOCKROW)memory + (size_t)y * columns;
  return 1;
}

static void coefficients_free(coefficients *array) {
  free(array->rows);
  if (array->memory) munmap(array->memory, array->size);
  memset(array, 0, sizeof *array);
}

/* ---- Decoding ----------------------------------------------------------------------------- */

struct cjpeg_decoder {
  struct jpeg_decompress_struct cinfo; /* first: libjpeg hands back a pointer to it */
  error_manager errors;
  coefficients arrays[MAX_COMPONENTS];
  int array_count;
};

/* libjpeg's virtual arrays of blocks, which are whole in memory here. */
static jvirt_barray_ptr request_array(j_common_ptr cinfo, int pool, boolean clear,
                                      JDIMENSION columns, JDIMENSION rows, JDIMENSION most) {
  cjpeg_decoder *decoder = (cjpeg_decoder *)cinfo;
  (void)pool, (void)clear, (void)most;
  if (decoder->array_count == MAX_COMPONENTS) ERREXIT(cinfo, JERR_BAD_VIRTUAL_ACCESS);
  coefficients *array = &decoder->arrays[decoder->array_count++];
  if (!coefficients_make(array, columns, rows)) ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 11);
  return (jvirt_barray_ptr)array;
}

static void free_arrays(cjpeg_decoder *decoder) {
  while (decoder->array_count > 0) coefficients_free(&decoder->arrays[--decoder->array_count]);
}

static JBLOCKARRAY access_array(j_common_ptr cinfo, jvirt_barray_ptr array, JDIMENSION first,
                                JDIMENSION count, boolean writable) {
  (void)cinfo, (void)count, (void)writable;
  return ((coefficients *)array)->rows + first;
}

cjpeg_decoder *cjpeg_decoder_new(const uint8_t *data, size_t size) {
  cjpeg_decoder *decoder = calloc(1, sizeof *decoder);
  if (!decoder) return NULL;
  decoder->cinfo.err = error_manager_init(&decoder->errors);
  if (setjmp(decoder->errors.escape)) {
    cjpeg_decoder_free(decoder);
    return NULL;
  }
  jpeg_create_decompress(&decoder->cinfo);
  decoder->cinfo.mem->request_virt_barray = request_array;
  decoder->cinfo.mem->access_virt_barray = access_array;
  jpeg_mem_src(&decoder->cinfo, data, size);
  return decoder;
}

void cjpeg_decoder_free(cjpeg_decoder *decoder) {
  if (!decoder) return;
  jpeg_destroy_decompress(&decoder->cinfo);
  free_arrays(decoder);
  free(decoder);
}

const char *cjpeg_decoder_message(const cjpeg_decoder *decoder) { return decoder->errors.message; }

int cjpeg_decoder_warning_count(const cjpeg_decoder *decoder) {
  return (int)decoder->errors.base.num_warnings;
}

bool cjpeg_decoder_has_foreign_bytes(const cjpeg_decoder *decoder) {
  return decoder->errors.has_foreign_bytes;
}

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

/*
 * Gives every component the scale that was asked for. libjpeg decodes subsampled chroma at up to
 * twice that, to spare itself upsampling, and has no option against it; its TurboJPEG sets the same
 * fields for planes. Nothing to do without libjpeg's internal header.
 */
static int reduce_all_alike(struct jpeg_decompress_struct *cinfo) {
  int is_reduced = 0;
#ifdef CAN_REDUCE
  const int size = cinfo->min_DCT_scaled_size;
  int model = 0;
  while (model < cinfo->num_components && cinfo->comp_info[model].DCT_scaled_size != size) model++;
  if (model == cinfo->num_components) return 0;
  for (int i = 0; i < cinfo->num_components; i++) {
    jpeg_component_info *info = &cinfo->comp_info[i];
    if (info->DCT_scaled_size == size) continue;
    const long across = (long)cinfo->max_h_samp_factor * DCTSIZE;
    const long down = (long)cinfo->max_v_samp_factor * DCTSIZE;
    info->DCT_scaled_size = size;
    info->MCU_sample_width = info->MCU_width * size;
    info->downsampled_width = (JDIMENSION)(
        ((long)cinfo->image_width * info->h_samp_factor * size + across - 1) / across);
    info->downsampled_height = (JDIMENSION)(
        ((long)cinfo->image_height * info->v_samp_factor * size + down - 1) / down);
    cinfo->idct->inverse_DCT[i] = cinfo->idct->inverse_DCT[model];
    is_reduced = 1;
  }
#else
  (void)cinfo;
#endif
  return is_reduced;
}

cjpeg_status cjpeg_decoder_start(cjpeg_decoder *decoder, cjpeg_form form, int denominator,
                                 cjpeg_header *header) {
  struct jpeg_decompress_struct *cinfo = &decoder->cinfo;
  if (setjmp(decoder->errors.escape)) return decoder->errors.status;
  cinfo->scale_num = 1;
  cinfo->scale_denom = (unsigned)denominator;
  cinfo->dct_method = JDCT_ISLOW; /* the same result with and without SIMD */
  cinfo->do_block_smoothing = FALSE;
  if (form != CJPEG_ROWS) {
    cinfo->raw_data_out = TRUE;
    cinfo->out_color_space = cinfo->jpeg_color_space;
  } else {
    cinfo->out_color_space = JCS_CMYK;
  }
  jpeg_start_decompress(cinfo);
  const int is_reduced = form == CJPEG_SMALL_PLANES && reduce_all_alike(cinfo);
  fill_header(cinfo, header);
  header->is_reduced = is_reduced;
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
  free_arrays(decoder);
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

enum { MAX_STRIP = 8 };

/* One component of a picture that is turned while the encoder asks for its rows. */
typedef struct turned_component {
  const coefficients *from;
  JDIMENSION from_columns, from_rows; /* blocks of the picture */
  JDIMENSION columns, rows;           /* the same when turned */
  int transpose, mirror_x, mirror_y;
  /* Rows that are ready: several, because a turned row's blocks lie in as many stored rows, where
   * the neighbours of each are its neighbours in memory. */
  JBLOCKROW strip[MAX_STRIP];
  JDIMENSION strip_rows; /* there is room for */
  JDIMENSION first, count;
} turned_component;

typedef JCOEF line __attribute__((vector_size(DCTSIZE * sizeof(JCOEF)), aligned(sizeof(JCOEF))));

/* Lines i and i + 4 interleaved; three times make rows of columns. */
static inline void interleave(const line *from, line *to) {
  for (int i = 0; i < DCTSIZE / 2; i++) {
    const line a = from[i], b = from[i + DCTSIZE / 2];
    to[2 * i] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
    to[2 * i + 1] = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
  }
}

/*
 * Mirroring a block of samples changes the sign of every odd frequency along that axis. Returns 0 for
 * coefficients beyond those of 8-bit samples, which no code stands for: only damaged files have them.
 */
static inline int turn_block(const JCOEF *from, JCOEF *to, int transpose, int mirror_x,
                             int mirror_y) {
  const line across = mirror_x ? (line){0, -1, 0, -1, 0, -1, 0, -1} : (line){0};
  const line down = across ^ (mirror_y ? (line){-1, -1, -1, -1, -1, -1, -1, -1} : (line){0});
  line lines[DCTSIZE], others[DCTSIZE], beyond = {0};
  for (int v = 0; v < DCTSIZE; v++) {
    /* (x ^ -1) - -1 is -x. */
    const line sign = v & 1 ? down : across;
    const line stored = ((const line *)from)[v];
    lines[v] = (stored ^ sign) - sign;
    const line outside = (stored > 1023) | (stored < -1023);
    beyond |= v == 0 ? outside & (line){0, -1, -1, -1, -1, -1, -1, -1} : outside;
  }
  uint64_t halves[2];
  memcpy(halves, &beyond, sizeof halves);
  if (halves[0] | halves[1] || from[0] < -1024 || from[0] > 1023) return 0;
  if (transpose) {
    interleave(lines, others);
    interleave(others, lines);
    interleave(lines, others);
    memcpy(to, others, sizeof others);
  } else {
    memcpy(to, lines, sizeof lines);
  }
  return 1;
}

/* The stored block that comes to column x of row y. */
static inline const JCOEF *stored_block(const turned_component *turned, JDIMENSION x,
                                        JDIMENSION y) {
  const JDIMENSION across = turned->transpose ? y : x;
  const JDIMENSION down = turned->transpose ? x : y;
  const JDIMENSION column = turned->mirror_x ? turned->from_columns - 1 - across : across;
  const JDIMENSION row = turned->mirror_y ? turned->from_rows - 1 - down : down;
  return turned->from->rows[row][column];
}

/* Blocks of so many stored rows are on their way from memory while those before are turned. */
enum { ROWS_AHEAD = 8 };

static void turn_strip(j_common_ptr cinfo, turned_component *turned, JDIMENSION first) {
  turned->first = first;
  turned->count = turned->rows - first < turned->strip_rows ? turned->rows - first
                                                            : turned->strip_rows;
  for (JDIMENSION x = 0; x < turned->columns; x++) {
    for (JDIMENSION y = 0; y < turned->count; y++) {
      if (turned->transpose && x + ROWS_AHEAD < turned->columns) {
        const JCOEF *later = stored_block(turned, x + ROWS_AHEAD, first + y);
        __builtin_prefetch(later);
        __builtin_prefetch(later + DCTSIZE2 / 2);
      }
      if (!turn_block(stored_block(turned, x, first + y), turned->strip[y][x], turned->transpose,
                      turned->mirror_x, turned->mirror_y)) {
        ERREXIT(cinfo, JERR_BAD_DCT_COEF);
      }
    }
  }
}

/* In place of libjpeg's access to the encoder's array; rows below the picture are not looked at. */
static JBLOCKARRAY access_turned(j_common_ptr cinfo, jvirt_barray_ptr array, JDIMENSION first,
                                 JDIMENSION count, boolean writable) {
  turned_component *turned = (turned_component *)array;
  (void)writable;
  if (first < turned->first || first + count > turned->first + turned->strip_rows ||
      !turned->count) {
    turn_strip(cinfo, turned, first);
  }
  return turned->strip + (first - turned->first);
}

static int tables_equal(const JHUFF_TBL *a, const JHUFF_TBL *b) {
  return a && b && !memcmp(a->bits, b->bits, sizeof a->bits) &&
         !memcmp(a->huffval, b->huffval, sizeof a->huffval);
}

/* Whether the file is packed with the tables that the encoder would take by itself. */
static int has_standard_tables(j_decompress_ptr source, j_compress_ptr target) {
  if (source->progressive_mode || source->arith_code) return 0;
  for (int i = 0; i < source->num_components; i++) {
    const jpeg_component_info *stored = &source->comp_info[i], *out = &target->comp_info[i];
    if (!tables_equal(source->dc_huff_tbl_ptrs[stored->dc_tbl_no],
                      target->dc_huff_tbl_ptrs[out->dc_tbl_no]) ||
        !tables_equal(source->ac_huff_tbl_ptrs[stored->ac_tbl_no],
                      target->ac_huff_tbl_ptrs[out->ac_tbl_no])) {
      return 0;
    }
  }
  return 1;
}

/* How often each symbol of a Huffman table occurs; the last is JPEG's code of ones alone. */
enum { SYMBOLS = 256 };
typedef struct symbol_counts {
  long of[SYMBOLS + 1];
} symbol_counts;

/* Place of each coefficient in the zigzag of a block (ITU-T T.81, figure A.6). */
static const uint8_t zigzag[DCTSIZE2] = {
    0,  1,  5,  6,  14, 15, 27, 28, 2,  4,  7,  13, 16, 26, 29, 42, 3,  8,  12, 17, 25, 30,
    41, 43, 9,  11, 18, 24, 31, 40, 44, 53, 10, 19, 23, 32, 39, 45, 52, 54, 20, 22, 33, 38,
    46, 51, 55, 60, 21, 34, 37, 47, 50, 56, 59, 61, 35, 36, 48, 49, 57, 58, 62, 63};

static int bit_count(int value) {
  const unsigned size = (unsigned)(value < 0 ? -value : value);
  return size ? 32 - __builtin_clz(size) : 0;
}

/* The symbols of a block (T.81, section F.1.2.2) as it will be when turned. */
static void count_block(const JCOEF *block, const uint8_t *place, symbol_counts *counts) {
  uint64_t found = 0;
  uint8_t bits[DCTSIZE2];
  for (int first = 0; first < DCTSIZE2; first += 4) {
    uint64_t four;
    memcpy(&four, block + first, sizeof four);
    if (!four) continue;
    for (int i = first; i < first + 4; i++) {
      if (!block[i]) continue;
      found |= (uint64_t)1 << place[i];
      bits[place[i]] = (uint8_t)bit_count(block[i]);
    }
  }
  int last = 0;
  for (found &= ~(uint64_t)1; found; found &= found - 1) {
    const int at = __builtin_ctzll(found);
    const int zeros = at - last - 1;
    counts->of[0xF0] += zeros / 16;
    counts->of[(zeros % 16) << 4 | bits[at]]++;
    last = at;
  }
  if (last != DCTSIZE2 - 1) counts->of[0]++;
}

/* The shortest code for these counts with at most 16 bits a symbol: T.81, section K.2. */
static void make_table(JHUFF_TBL *table, symbol_counts *counts) {
  int length[SYMBOLS + 1] = {0}, next[SYMBOLS + 1];
  int lengths[SYMBOLS + 1] = {0};
  long *of = counts->of;
  of[SYMBOLS] = 1;
  for (int i = 0; i <= SYMBOLS; i++) next[i] = -1;
  for (;;) {
    /* The two rarest; of equal ones those of larger value. */
    int a = -1, b = -1;
    for (int i = 0; i <= SYMBOLS; i++) {
      if (!of[i]) continue;
      if (a < 0 || of[i] <= of[a]) {
        b = a;
        a = i;
      } else if (b < 0 || of[i] <= of[b]) {
        b = i;
      }
    }
    if (b < 0) break;
    of[a] += of[b];
    of[b] = 0;
    int end = a;
    for (int i = a; i >= 0; i = next[i]) length[end = i]++;
    next[end] = b;
    for (int i = b; i >= 0; i = next[i]) length[i]++;
  }
  for (int i = 0; i <= SYMBOLS; i++) lengths[length[i]] += length[i] > 0;
  /* Codes that are too long: a pair moves up, beside the parent of a shorter one. */
  for (int i = SYMBOLS; i > 16; i--) {
    while (lengths[i] > 0) {
      int shorter = i - 2;
      while (!lengths[shorter]) shorter--;
      lengths[i] -= 2;
      lengths[i - 1]++;
      lengths[shorter + 1] += 2;
      lengths[shorter]--;
    }
  }
  int longest = 16;
  while (!lengths[longest]) longest--;
  lengths[longest]--; /* the code of ones */
  memset(table->bits, 0, sizeof table->bits);
  for (int i = 1; i <= 16; i++) table->bits[i] = (UINT8)lengths[i];
  int count = 0;
  for (int bits = 1; bits <= SYMBOLS; bits++) {
    for (int i = 0; i < SYMBOLS; i++) {
      if (length[i] == bits) table->huffval[count++] = (UINT8)i;
    }
  }
  table->sent_table = FALSE;
}

/*
 * Tables for what is turned, so that a well-packed file does not grow. libjpeg would find them by
 * encoding everything twice. Counted are the stored blocks, of a large picture those of every eighth
 * row: near enough, when each symbol that may occur in the others gets a code. Turning changes the
 * blocks' order, which the differences of DC follow only roughly; all of them get one too.
 */
static void make_tables(j_decompress_ptr source, j_compress_ptr target, jvirt_barray_ptr *stored,
                        int transpose) {
  uint8_t place[DCTSIZE2];
  for (int v = 0; v < DCTSIZE; v++) {
    for (int u = 0; u < DCTSIZE; u++) {
      place[v * DCTSIZE + u] = zigzag[transpose ? u * DCTSIZE + v : v * DCTSIZE + u];
    }
  }
  const long luma_blocks =
      (long)source->comp_info[0].width_in_blocks * source->comp_info[0].height_in_blocks;
  const JDIMENSION step = luma_blocks < 1 << 15 ? 1 : 8;
  symbol_counts counts[2][NUM_HUFF_TBLS] = {0};
  int is_used[NUM_HUFF_TBLS] = {0};
  for (int i = 0; i < source->num_components; i++) {
    const jpeg_component_info *info = &source->comp_info[i];
    const jpeg_component_info *out = &target->comp_info[i];
    symbol_counts *dc = &counts[0][out->dc_tbl_no], *ac = &counts[1][out->ac_tbl_no];
    is_used[out->dc_tbl_no] = is_used[out->ac_tbl_no] = 1;
    int before = 0;
    for (JDIMENSION y = 0; y < info->height_in_blocks; y += step) {
      JBLOCKROW row = ((const coefficients *)stored[i])->rows[y];
      for (JDIMENSION x = 0; x < info->width_in_blocks; x++) {
        count_block(row[x], place, ac);
        dc->of[bit_count(row[x][0] - before)]++;
        before = row[x][0];
      }
    }
  }
  for (int i = 0; i < NUM_HUFF_TBLS; i++) {
    if (!is_used[i]) continue;
    for (int size = 0; size <= 11; size++) counts[0][i].of[size]++;
    counts[1][i].of[0]++; /* Blocks that only fill up a coded unit. */
    if (step > 1) {
      for (int zeros = 0; zeros < 16; zeros++) {
        for (int size = 1; size <= 10; size++) counts[1][i].of[zeros << 4 | size]++;
      }
      counts[1][i].of[0xF0]++; /* sixteen zeros */
    }
    make_table(target->dc_huff_tbl_ptrs[i], &counts[0][i]);
    make_table(target->ac_huff_tbl_ptrs[i], &counts[1][i]);
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
  if (!has_standard_tables(source, target)) make_tables(source, target, stored, transpose);
  if (transpose) exchange_axes(target);
  target->mem->access_virt_barray = access_turned;

  jvirt_barray_ptr arrays[CJPEG_MAX_COMPONENTS];
  for (int i = 0; i < source->num_components; i++) {
    const jpeg_component_info *info = &source->comp_info[i];
    turned_component *turned =
        target->mem->alloc_small((j_common_ptr)target, JPOOL_IMAGE, sizeof *turned);
    memset(turned, 0, sizeof *turned);
    turned->from = (const coefficients *)stored[i];
    turned->from_columns = info->width_in_blocks;
    turned->from_rows = info->height_in_blocks;
    turned->columns = transpose ? info->height_in_blocks : info->width_in_blocks;
    turned->rows = transpose ? info->width_in_blocks : info->height_in_blocks;
    turned->transpose = transpose;
    turned->mirror_x = mirror_x;
    turned->mirror_y = mirror_y;
    /* The encoder takes as many rows at once as the component has in a coded unit. */
    const JDIMENSION step = (JDIMENSION)target->comp_info[i].v_samp_factor;
    turned->strip_rows = MAX_STRIP / step * step;
    JBLOCKARRAY rows = target->mem->alloc_barray((j_common_ptr)target, JPOOL_IMAGE,
                                                 turned->columns, turned->strip_rows);
    for (JDIMENSION y = 0; y < turned->strip_rows; y++) turned->strip[y] = rows[y];
    arrays[i] = (jvirt_barray_ptr)turned;
  }
  jpeg_write_coefficients(target, arrays);
  jpeg_finish_compress(target);
  jpeg_finish_decompress(source);
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
