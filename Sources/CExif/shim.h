#include <libexif/exif-data.h>
#include <libexif/exif-loader.h>

/* The directory of the main picture (IFD 0); an element of a C array of enum length. */
static inline ExifContent *fm_exif_primary_directory(ExifData *data) {
  return data->ifd[EXIF_IFD_0];
}
