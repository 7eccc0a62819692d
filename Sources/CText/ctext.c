#include "ctext.h"

static inline uint8_t is_escaped(uint8_t byte) {
  return (uint8_t)((byte < 0x20) | (byte == '"') | (byte == '\\'));
}

/* Without a branch a byte, so that it becomes vector instructions. */
#define ALL_PLAIN(name, block)                                                \
  static inline int name(const uint8_t *bytes) {                              \
    uint8_t found = 0;                                                        \
    for (size_t i = 0; i < (block); i++) found |= is_escaped(bytes[i]);       \
    return !found;                                                            \
  }
ALL_PLAIN(are_64_plain, 64)
ALL_PLAIN(are_16_plain, 16)

size_t ctext_plain_length(const uint8_t *bytes, size_t size) {
  size_t index = 0;
  while (size - index >= 64 && are_64_plain(bytes + index)) index += 64;
  while (size - index >= 16 && are_16_plain(bytes + index)) index += 16;
  while (index < size && !is_escaped(bytes[index])) index++;
  return index;
}
