#include "runtime/core/Status.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

Status divisi::runtime::cannotRead(int error, std::string message) {
  constexpr std::array refusals = {EACCES, EPERM, EMFILE, ENFILE, ENOMEM, EIO};
  const bool isRefused = std::find(refusals.begin(), refusals.end(), error) != refusals.end();
  return isRefused ? Status::refused(std::move(message)) : Status::failure(std::move(message));
}

std::string divisi::runtime::systemError() { return std::error_code(errno, std::generic_category()).message(); }

std::string divisi::runtime::printable(std::string_view text) {
  std::string shown;
  for (char byte : text) {
    auto code = static_cast<unsigned char>(byte);
    if (code >= 0x20 && code < 0x7f)
      shown += byte;
    else
      shown.append("\\x") += {"0123456789abcdef"[code >> 4], "0123456789abcdef"[code & 15]};
  }
  return shown;
}

std::string divisi::runtime::namesOf(const std::vector<std::string> &names) {
  constexpr size_t most = 8;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i)
    text += (i > 0 ? ", '" : "'") + printable(names[i]) + "'";
  return names.size() > most ? concat(text, " and ", names.size() - most, " more") : text;
}
