#pragma once
#include <string>

namespace divisi::tools {

/// What `--version` says: the version and the commit that this was built from; with `libraries`, also a line for each library that
/// it was built with.
std::string describeVersion(bool libraries);

} // namespace divisi::tools
