#include "ctext.h"

#include <string.h>

/* So many bytes at once: a vector of every processor that there are builds for. */
typedef uint8_t Block __attribute__((vector_size(16)));
typedef uint64_t Words __attribute__((vector_size(16)));

static inline Block block_at(const uint8_t *bytes) {
  Block block;
  memcpy(&block, bytes, sizeof block);
  return block;
}

/* 0xFF where the byte stands escaped, else 0. */
static inline Block escaped_of(Block block) {
  return (Block)((block < 0x20) | (block == '"') | (block == '\\'));
}

static inline int is_none(Block marks) {
  Words words = (Words)marks;
  return (words[0] | words[1]) == 0;
}

static inline int is_escaped(uint8_t byte) { return byte < 0x20 || byte == '"' || byte == '\\'; }

/* The escape of a byte; its length. */
static inline size_t escape_of(uint8_t byte, uint8_t escape[6]) {
  static const char hexadecimal[] = "0123456789abcdef";
  /* From backspace on; there is none for a vertical tab. */
  static const char letters[] = "btn\0fr";
  escape[0] = '\\';
  if (byte >= 0x20) {
    escape[1] = byte;
    return 2;
  }
  if (byte >= 0x08 && byte <= 0x0D && byte != 0x0B) {
    escape[1] = (uint8_t)letters[byte - 0x08];
    return 2;
  }
  memcpy(escape + 1, "u00", 3);
  escape[4] = (uint8_t)hexadecimal[byte >> 4];
  escape[5] = (uint8_t)hexadecimal[byte & 15];
  return 6;
}

size_t ctext_escape(const uint8_t *source, size_t size, uint8_t *target, size_t room,
                    size_t *written) {
  size_t read = 0, wrote = 0;
  while (read < size) {
    /* Blocks up to the first escape; that one is written whole, and again from its escape on. */
    while (size - read >= sizeof(Block) && room - wrote >= sizeof(Block)) {
      Block block = block_at(source + read);
      memcpy(target + wrote, &block, sizeof block);
      size_t plain = sizeof block;
      if (!is_none(escaped_of(block)))
        for (plain = 0; !is_escaped(source[read + plain]);) plain++;
      read += plain;
      wrote += plain;
      if (plain < sizeof block) break;
    }
    if (read == size) break;
    uint8_t escape[6] = {source[read]};
    size_t length = is_escaped(source[read]) ? escape_of(source[read], escape) : 1;
    if (room - wrote < length) break;
    for (size_t i = 0; i < length; i++) target[wrote++] = escape[i];
    read++;
  }
  *written = wrote;
  return read;
}

size_t ctext_escaped_size(const uint8_t *source, size_t size) {
  size_t total = size;
  while (size >= sizeof(Block)) {
    /* A byte adds 5 at most: so many blocks before a lane could overflow. */
    Block lanes = {0};
    for (int count = 0; count < 255 / 5 && size >= sizeof(Block); count++) {
      Block block = block_at(source);
      Block control = (Block)(block < 0x20);
      Block is_short = (Block)((block - 0x08 < 6) & (block != 0x0B));
      /* A mark is -1. */
      lanes -= (Block)((block == '"') | (block == '\\') | is_short);
      lanes += control & ~is_short & 5;
      source += sizeof(Block);
      size -= sizeof(Block);
    }
    for (size_t i = 0; i < sizeof(Block); i++) total += lanes[i];
  }
  uint8_t escape[6];
  for (size_t i = 0; i < size; i++)
    if (is_escaped(source[i])) total += escape_of(source[i], escape) - 1;
  return total;
}
