#include "runtime/comm/tcp/Secret.h"
#include "runtime/comm/tcp/Socket.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace divisi::runtime;

const char *const divisi::runtime::secretRemedy =
    "ranks on several hosts need a secret in common: set DIVISI_SECRET to the same random text (openssl rand -hex 32) "
    "for all, or DIVISI_SECRET_FILE to a file that has it";

namespace {
constexpr size_t shortest = 16, longest = 4096;
using File = Socket; // a file descriptor, closed with the object

/// The first line of a file.
std::string lineOf(const File &file) {
  std::string text(longest + 1, '\0');
  ssize_t bytes = ::read(file.get(), text.data(), text.size());
  text.resize(static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
  return text.substr(0, text.find_first_of("\r\n"));
}

Result<Secret> checked(std::string text, const char *origin) {
  if (text.size() < shortest || text.size() > longest)
    return Status::usage(concat(origin, ": a secret has ", shortest, " to ", longest,
                                " characters on one line (openssl rand -hex 32 makes one)"));
  return Secret{std::move(text), true};
}

/// Whether only this user can read or change the file.
bool isPrivate(const File &file, mode_t kind) {
  struct stat info = {};
  return ::fstat(file.get(), &info) == 0 && (info.st_mode & S_IFMT) == kind && info.st_uid == ::geteuid() &&
         (info.st_mode & 077) == 0;
}

/// Writes a secret under another name and links it, so that an existing file is always complete.
bool makeSecret(const File &folder) {
  Result<std::string> random = randomDigits(80);
  if (!random.ok())
    return false;
  std::string name = "secret-" + random->substr(0, 16), text = random->substr(16) + "\n";
  File file(::openat(folder.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  bool made = file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
              (::linkat(folder.get(), name.c_str(), folder.get(), "secret", 0) == 0 || errno == EEXIST);
  if (file)
    ::unlinkat(folder.get(), name.c_str(), 0);
  return made;
}

Result<Secret> ofThisUser() {
  std::string path = concat("/tmp/divisi-", ::geteuid());
  auto refused = [&](const char *what) {
    return failure(path, what,
                   ": it would hold the secret of this user's jobs; mend that, or set DIVISI_SECRET to the "
                   "same random text (openssl rand -hex 32) for all ranks");
  };
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return refused(concat(" cannot be made: ", systemError()).c_str());
  File folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder || !isPrivate(folder, S_IFDIR))
    return refused(" is no folder of this user alone");
  for (bool again : {true, false}) {
    File file(::openat(folder.get(), "secret", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (file) {
      std::string text = isPrivate(file, S_IFREG) ? lineOf(file) : "";
      if (text.size() < shortest)
        return refused("/secret is no private file with a secret");
      return Secret{std::move(text), false};
    }
    if (errno != ENOENT || (again && !makeSecret(folder)))
      break;
  }
  return refused(concat("/secret cannot be read or made: ", systemError()).c_str());
}
} // namespace

Result<std::string> divisi::runtime::randomDigits(size_t count) {
  std::string digits(count, '\0');
  for (size_t at = 0; at < count;) {
    ssize_t got = ::getrandom(digits.data() + at, count - at, 0);
    if (got < 0 && errno != EINTR)
      return failure("the system gives no random numbers: ", systemError());
    at += static_cast<size_t>(std::max<ssize_t>(got, 0));
  }
  for (char &digit : digits)
    digit = "0123456789abcdef"[digit & 15];
  return digits;
}

Result<Secret> Secret::ofJob() {
  const char *text = std::getenv("DIVISI_SECRET"), *path = std::getenv("DIVISI_SECRET_FILE");
  if (text && path)
    return Status::usage("DIVISI_SECRET and DIVISI_SECRET_FILE are both set: unset one of them");
  if (text)
    return checked(text, "DIVISI_SECRET");
  if (!path)
    return ofThisUser();
  File file(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file)
    return failure("DIVISI_SECRET_FILE: cannot open '", path, "': ", systemError());
  return checked(lineOf(file), concat("DIVISI_SECRET_FILE: '", path, "'").c_str());
}
