#include <libexif/exif-data.h>
#include <libexif/exif-loader.h>

/* The directory of the main picture (IFD 0); an element of a C array of enum length. */
static inline ExifContent *fm_exif_primary_directory(ExifData *data) {
  return data->ifd[EXIF_IFD_0];
}

/* Entries of all directories. */
static inline unsigned fm_exif_entry_count(const ExifData *data) {
  unsigned count = 0;
  for (int i = 0; i < EXIF_IFD_COUNT; i++) count += data->ifd[i] ? data->ifd[i]->count : 0;
  return count;
}
