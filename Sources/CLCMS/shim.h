#include <lcms2.h>

/* Pixel formats are macros over macros, which Swift does not see. The suffix REV: 255 = no ink. */
static const cmsUInt32Number fm_lcms_gray8 = TYPE_GRAY_8;
static const cmsUInt32Number fm_lcms_rgb8 = TYPE_RGB_8;
static const cmsUInt32Number fm_lcms_rgba8 = TYPE_RGBA_8;
static const cmsUInt32Number fm_lcms_cmyk8_reversed = TYPE_CMYK_8_REV;
