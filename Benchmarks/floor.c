/*
 * floor.c - what a scaled JPEG costs at the very least, straight in C over libjpeg-turbo:
 *
 *   floor photo FILE N QUALITY   decodes to RGB at 1/N and encodes the result: no resize, no turn
 *   floor eighth FILE            decodes to RGB at 1/8 and keeps nothing
 *   floor turned FILE QUALITY    decodes to RGB in full and encodes it again, as a turn that goes
 *                                through pixels must
 *
 * Reads the file, works once untimed and then until told to stop: each line on stdin is one run, and
 * each run prints its seconds. Built by the benchmarks that compare with it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jpeglib.h>

static unsigned char *file_bytes;
static unsigned long file_size;

static void read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END)) exit(1);
  file_size = (unsigned long)ftell(file);
  rewind(file);
  file_bytes = malloc(file_size);
  if (!file_bytes || fread(file_bytes, 1, file_size, file) != file_size) exit(1);
  fclose(file);
}

static unsigned char *decode(int denominator, unsigned *width, unsigned *height) {
  struct jpeg_decompress_struct decoder;
  struct jpeg_error_mgr errors;
  decoder.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&decoder);
  jpeg_mem_src(&decoder, file_bytes, file_size);
  jpeg_read_header(&decoder, TRUE);
  decoder.scale_num = 1;
  decoder.scale_denom = (unsigned)denominator;
  decoder.out_color_space = JCS_RGB;
  jpeg_start_decompress(&decoder);
  *width = decoder.output_width;
  *height = decoder.output_height;
  unsigned char *pixels = malloc((size_t)*width * *height * 3);
  while (decoder.output_scanline < decoder.output_height) {
    JSAMPROW row = pixels + (size_t)decoder.output_scanline * *width * 3;
    jpeg_read_scanlines(&decoder, &row, 1);
  }
  jpeg_finish_decompress(&decoder);
  jpeg_destroy_decompress(&decoder);
  return pixels;
}

static void encode(unsigned char *pixels, unsigned width, unsigned height, int quality) {
  struct jpeg_compress_struct encoder;
  struct jpeg_error_mgr errors;
  unsigned char *output = NULL;
  unsigned long size = 0;
  encoder.err = jpeg_std_error(&errors);
  jpeg_create_compress(&encoder);
  jpeg_mem_dest(&encoder, &output, &size);
  encoder.image_width = width;
  encoder.image_height = height;
  encoder.input_components = 3;
  encoder.in_color_space = JCS_RGB;
  jpeg_set_defaults(&encoder);
  jpeg_set_quality(&encoder, quality, TRUE);
  jpeg_start_compress(&encoder, TRUE);
  while (encoder.next_scanline < height) {
    JSAMPROW row = pixels + (size_t)encoder.next_scanline * width * 3;
    jpeg_write_scanlines(&encoder, &row, 1);
  }
  jpeg_finish_compress(&encoder);
  jpeg_destroy_compress(&encoder);
  free(output);
}

static void run(int denominator, int quality) {
  unsigned width, height;
  unsigned char *pixels = decode(denominator, &width, &height);
  if (quality) encode(pixels, width, height, quality);
  free(pixels);
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  int denominator = 1, quality = 0;
  if (!strcmp(argv[1], "photo") && argc == 5) {
    denominator = atoi(argv[3]);
    quality = atoi(argv[4]);
  } else if (!strcmp(argv[1], "eighth")) {
    denominator = 8;
  } else if (!strcmp(argv[1], "turned") && argc == 4) {
    quality = atoi(argv[3]);
  } else {
    return 2;
  }
  read_file(argv[2]);
  run(denominator, quality);
  for (int c; (c = getchar()) != EOF;) {
    if (c != '\n') continue;
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    run(denominator, quality);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.9f\n", (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9);
    fflush(stdout);
  }
  return 0;
}
