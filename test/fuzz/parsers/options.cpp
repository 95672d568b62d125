// The command line of a program: one argument a line.
#include "runtime/main/Options.h"
#include "test/fuzz/parsers/Input.h"
#include "test/fuzz/parsers/Model.h"

#include <vector>

using namespace divisi;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const runtime::Manifest manifest = *runtime::parseManifest(fuzz::model, fuzz::modelArena);
  std::vector<std::string> words = {"program", ""};
  for (char c : fuzz::text(data, size))
    if (c == '\n')
      words.emplace_back();
    else if (c != 0) // arguments end there
      words.back() += c;
  std::vector<const char *> arguments;
  for (const std::string &word : words)
    arguments.push_back(word.c_str());
  auto options = runtime::parseOptions(manifest, static_cast<int>(arguments.size()), arguments.data(), false);
  if (options.ok() && *options)
    (*options)->common();
  return 0;
}
