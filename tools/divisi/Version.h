#pragma once
#include <string>

namespace divisi::tools {

/// The output of `--version`: the version and the commit of this build (none if it was built without git), and one line
/// for each library of the build.
std::string describeVersion();

} // namespace divisi::tools
