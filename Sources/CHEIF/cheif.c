#include "cheif.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- libheif's interface ------------------------------------------------------------------ */

typedef struct heif_error {
  int code;
  int subcode;
  const char *message;
} heif_error;

enum {
  ERROR_UNSUPPORTED_FILETYPE = 3,
  ERROR_UNSUPPORTED_FEATURE = 4,
  ERROR_MEMORY = 6,
  SUBERROR_UNSUPPORTED_CODEC = 3000,
  SUBERROR_SECURITY_LIMIT = 1000,
  COLORSPACE_RGB = 1,
  CHROMA_RGB = 10,
  CHROMA_RGBA = 11,
  CHROMA_RGB16_LITTLE = 14,
  CHROMA_RGBA16_LITTLE = 15,
  CHANNEL_INTERLEAVED = 10
};

/* The fields of heif_decoding_options that every version has. */
typedef struct heif_decoding_options {
  uint8_t version;
  uint8_t ignore_transformations;
} heif_decoding_options;

struct cheif_library {
  void *(*context_alloc)(void);
  void (*context_free)(void *);
  heif_error (*read)(void *, const void *, size_t, const void *);
  heif_error (*primary)(void *, void **);
  void (*limit_sides)(void *, int);
  void (*handle_release)(const void *);
  int (*width)(const void *);
  int (*height)(const void *);
  int (*stored_width)(const void *);
  int (*stored_height)(const void *);
  int (*has_alpha)(const void *);
  int (*is_premultiplied)(const void *); /* since 1.12; may be NULL */
  int (*bits)(const void *);
  size_t (*profile_size)(const void *);
  heif_error (*profile)(const void *, void *);
  heif_decoding_options *(*options_alloc)(void);
  void (*options_free)(heif_decoding_options *);
  heif_error (*decode)(const void *, void **, int, int, const heif_decoding_options *);
  void (*image_release)(const void *);
  int (*image_width)(const void *, int);
  int (*image_height)(const void *, int);
  int (*image_bits)(const void *, int);
  const uint8_t *(*plane)(const void *, int, int *);
  int (*have_decoder)(int);
};

/*
 * Opens what lies beside the library. A Python wheel's codecs are in its own folder, where the loader
 * does not look, but it takes a library that is already open by its name.
 */
static void open_neighbours(const char *file) {
  const char *slash = strrchr(file, '/');
  if (!slash) return;
  const int length = (int)(slash - file);
  char path[4096];
  if (snprintf(path, sizeof path, "%.*s/", length, file) >= (int)sizeof path) return;
  DIR *folder = opendir(path);
  if (!folder) return;
  for (const struct dirent *entry; (entry = readdir(folder));) {
    if (!strstr(entry->d_name, ".so") || strcmp(entry->d_name, slash + 1) == 0) continue;
    const int size = snprintf(path, sizeof path, "%.*s/%s", length, file, entry->d_name);
    if (size < (int)sizeof path) dlopen(path, RTLD_NOW | RTLD_LOCAL);
  }
  closedir(folder);
}

cheif_library *cheif_library_open(const char *file, char *why, size_t size) {
  void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    open_neighbours(file);
    handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  }
  if (!handle) {
    const char *message = dlerror();
    snprintf(why, size, "%s", message ? message : "not found");
    return NULL;
  }
  cheif_library *library = calloc(1, sizeof *library);
  if (!library) {
    dlclose(handle);
    snprintf(why, size, "out of memory");
    return NULL;
  }
  const struct {
    const char *name;
    void *target;
    int is_optional;
  } symbols[] = {
      {"heif_context_alloc", &library->context_alloc, 0},
      {"heif_context_free", &library->context_free, 0},
      {"heif_context_read_from_memory_without_copy", &library->read, 0},
      {"heif_context_get_primary_image_handle", &library->primary, 0},
      {"heif_context_set_maximum_image_size_limit", &library->limit_sides, 0},
      {"heif_image_handle_release", &library->handle_release, 0},
      {"heif_image_handle_get_width", &library->width, 0},
      {"heif_image_handle_get_height", &library->height, 0},
      {"heif_image_handle_get_ispe_width", &library->stored_width, 0},
      {"heif_image_handle_get_ispe_height", &library->stored_height, 0},
      {"heif_image_handle_has_alpha_channel", &library->has_alpha, 0},
      {"heif_image_handle_is_premultiplied_alpha", &library->is_premultiplied, 1},
      {"heif_image_handle_get_luma_bits_per_pixel", &library->bits, 0},
      {"heif_image_handle_get_raw_color_profile_size", &library->profile_size, 0},
      {"heif_image_handle_get_raw_color_profile", &library->profile, 0},
      {"heif_decoding_options_alloc", &library->options_alloc, 0},
      {"heif_decoding_options_free", &library->options_free, 0},
      {"heif_decode_image", &library->decode, 0},
      {"heif_image_release", &library->image_release, 0},
      {"heif_image_get_width", &library->image_width, 0},
      {"heif_image_get_height", &library->image_height, 0},
      {"heif_image_get_bits_per_pixel_range", &library->image_bits, 0},
      {"heif_image_get_plane_readonly", &library->plane, 0},
      {"heif_have_decoder_for_format", &library->have_decoder, 0},
  };
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
    void *symbol = dlsym(handle, symbols[i].name);
    if (!symbol && !symbols[i].is_optional) {
      snprintf(why, size, "%s has no function %s", file, symbols[i].name);
      free(library);
      dlclose(handle);
      return NULL;
    }
    /* POSIX: a pointer from dlsym is stored as a function's. */
    memcpy(symbols[i].target, &symbol, sizeof symbol);
  }
  return library;
}

int cheif_library_decodes(const cheif_library *library, cheif_codec codec) {
  return library->have_decoder((int)codec);
}

/* ---- Pictures ----------------------------------------------------------------------------- */

struct cheif_picture {
  const cheif_library *library;
  void *context;
  void *handle;
  void *image;
  int has_alpha;
  int bits;
};

static cheif_status status_of(heif_error error, char *why, size_t size) {
  if (error.code == 0) return CHEIF_OK;
  snprintf(why, size, "%s", error.message ? error.message : "unknown error");
  if (error.code == ERROR_MEMORY) {
    return error.subcode == SUBERROR_SECURITY_LIMIT ? CHEIF_CORRUPT : CHEIF_NO_MEMORY;
  }
  if (error.code == ERROR_UNSUPPORTED_FILETYPE || error.code == ERROR_UNSUPPORTED_FEATURE ||
      error.subcode == SUBERROR_UNSUPPORTED_CODEC) {
    return CHEIF_UNSUPPORTED;
  }
  return CHEIF_CORRUPT;
}

void cheif_picture_free(cheif_picture *picture) {
  if (!picture) return;
  if (picture->image) picture->library->image_release(picture->image);
  if (picture->handle) picture->library->handle_release(picture->handle);
  if (picture->context) picture->library->context_free(picture->context);
  free(picture);
}

cheif_picture *cheif_picture_open(const cheif_library *library, const uint8_t *data, size_t size,
                                  cheif_header *header, cheif_status *status, char *why,
                                  size_t why_size) {
  cheif_picture *picture = calloc(1, sizeof *picture);
  *status = CHEIF_NO_MEMORY;
  if (!picture) return NULL;
  picture->library = library;
  picture->context = library->context_alloc();
  if (!picture->context) {
    cheif_picture_free(picture);
    return NULL;
  }
  *status = status_of(library->read(picture->context, data, size, NULL), why, why_size);
  if (*status == CHEIF_OK) {
    *status = status_of(library->primary(picture->context, &picture->handle), why, why_size);
  }
  if (*status != CHEIF_OK) {
    cheif_picture_free(picture);
    return NULL;
  }
  const void *handle = picture->handle;
  memset(header, 0, sizeof *header);
  header->stored_width = library->stored_width(handle);
  header->stored_height = library->stored_height(handle);
  header->width = library->width(handle);
  header->height = library->height(handle);
  header->bits = library->bits(handle);
  header->has_alpha = library->has_alpha(handle) != 0;
  header->is_premultiplied =
      library->is_premultiplied && library->is_premultiplied(handle) != 0;
  header->profile_size = library->profile_size(handle);
  /* The parts that a picture is put together from may claim to be larger than it; tiles, which may be
     so by a little, have less than this. */
  int side = 4096;
  if (side < header->stored_width + 64) side = header->stored_width + 64;
  if (side < header->stored_height + 64) side = header->stored_height + 64;
  library->limit_sides(picture->context, side);
  picture->has_alpha = header->has_alpha;
  picture->bits = header->bits;
  return picture;
}

cheif_status cheif_picture_profile(cheif_picture *picture, uint8_t *profile) {
  char why[8];
  return status_of(picture->library->profile(picture->handle, profile), why, sizeof why);
}

cheif_status cheif_picture_decode(cheif_picture *picture, int as_stored, cheif_pixels *pixels,
                                  char *why, size_t why_size) {
  const cheif_library *library = picture->library;
  heif_decoding_options *options = library->options_alloc();
  if (!options) return CHEIF_NO_MEMORY;
  options->ignore_transformations = as_stored != 0;
  const int chroma = picture->bits > 8
                         ? (picture->has_alpha ? CHROMA_RGBA16_LITTLE : CHROMA_RGB16_LITTLE)
                         : (picture->has_alpha ? CHROMA_RGBA : CHROMA_RGB);
  cheif_status status =
      status_of(library->decode(picture->handle, &picture->image, COLORSPACE_RGB, chroma, options),
                why, why_size);
  library->options_free(options);
  if (status != CHEIF_OK) return status;
  int stride = 0;
  memset(pixels, 0, sizeof *pixels);
  pixels->data = library->plane(picture->image, CHANNEL_INTERLEAVED, &stride);
  pixels->width = library->image_width(picture->image, CHANNEL_INTERLEAVED);
  pixels->height = library->image_height(picture->image, CHANNEL_INTERLEAVED);
  pixels->bits = library->image_bits(picture->image, CHANNEL_INTERLEAVED);
  const int pixel_size = (picture->has_alpha ? 4 : 3) * (picture->bits > 8 ? 2 : 1);
  if (!pixels->data || stride < pixels->width * pixel_size || pixels->bits < 8 ||
      pixels->bits > 16) {
    snprintf(why, why_size, "the decoder gave no pixels");
    return CHEIF_CORRUPT;
  }
  pixels->stride = (size_t)stride;
  return CHEIF_OK;
}
