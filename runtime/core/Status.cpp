#include "runtime/core/Status.h"

#include <cerrno>
#include <system_error>

std::string divisi::runtime::systemError() { return std::error_code(errno, std::generic_category()).message(); }
