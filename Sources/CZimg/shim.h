#include <zimg.h>

/* ZIMG_API_VERSION is a macro with arguments inside, which Swift does not see. */
static const unsigned fm_zimg_api_version = ZIMG_API_VERSION;

/* The planes are an array of an unnamed struct, which Swift does not see either. */
static inline zimg_image_buffer_const fm_zimg_input(const void *data, ptrdiff_t stride) {
  zimg_image_buffer_const buffer = {ZIMG_API_VERSION, {{data, stride, ZIMG_BUFFER_MAX}}};
  return buffer;
}

static inline zimg_image_buffer fm_zimg_output(void *data, ptrdiff_t stride) {
  zimg_image_buffer buffer = {ZIMG_API_VERSION, {{data, stride, ZIMG_BUFFER_MAX}}};
  return buffer;
}
