#include "divisi/abi.h"

#include <cstring>

void divisi_copy(DivisiContext *, const DivisiCopy *params, void *const *buffers) {
  std::memcpy(buffers[1], buffers[0], params->bytes);
}
