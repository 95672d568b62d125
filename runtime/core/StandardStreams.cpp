#include "runtime/core/StandardStreams.h"

#include <fcntl.h>
#include <unistd.h>

void divisi::runtime::occupyStandardStreams() {
  // open() returns the lowest free number.
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream)
    if (fcntl(stream, F_GETFD) < 0)
      [[maybe_unused]] int taken = ::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
}
