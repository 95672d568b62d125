#include "tools/divisi/Processes.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

bool divisi::tools::hasLivingChildren(pid_t parent) {
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc", error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().find_first_not_of("0123456789") != std::string::npos)
      continue;
    std::ifstream file(it->path() / "stat");
    std::string line;
    std::getline(file, line); // PID (NAME) STATE PARENT ...; the name may contain anything
    std::istringstream fields(line.substr(std::min(line.size(), line.rfind(')') + 1)));
    char state = 0;
    pid_t of = 0;
    if (fields >> state >> of && of == parent && state != 'Z' && state != 'X')
      return true;
  }
  return static_cast<bool>(error);
}
