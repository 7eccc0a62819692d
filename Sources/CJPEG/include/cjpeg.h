#ifndef OPENFM_CJPEG_H
#define OPENFM_CJPEG_H
#include <stddef.h>
#include <stdio.h>
#include <jpeglib.h>
#endif
