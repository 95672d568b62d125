#include "runtime/core/Hash.h"

std::string divisi::runtime::fnv1a64(const void *data, size_t bytes) {
  return "fnv1a64:" + digitsOf(fnv1a(data, bytes));
}
