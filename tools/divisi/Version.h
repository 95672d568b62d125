#pragma once
#include <string>

namespace divisi::tools {

/// The output of `--version`: the version and the commit of this build; with `libraries`, also one line for each
/// library of the build.
std::string describeVersion(bool libraries);

} // namespace divisi::tools
