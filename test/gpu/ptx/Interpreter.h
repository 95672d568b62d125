#pragma once
#include "test/gpu/ptx/Global.h"
#include "test/gpu/ptx/Memory.h"
#include "test/gpu/ptx/Program.h"

#include <memory>
#include <mutex>
#include <span>

namespace divisi::test::ptx {

/// Kernels of a text of PTX, executed on this processor as a GPU would do it.
class Module {
public:
  /// Throws an Error where the text is not what is known.
  explicit Module(std::string_view text);

  /// Executes all blocks of a kernel, whose parameters are addresses. What is wrong, with kernel, line and thread; or
  /// nothing.
  std::string launch(const std::string &kernel, unsigned blocks, unsigned threads, std::span<const uint64_t> arguments,
                     Memory memory);

private:
  const Program &find(const std::string &kernel);
  std::unique_ptr<Global> takeGlobal();

  Text text;
  std::mutex mutex;                                         ///< of what follows
  std::map<std::string, std::unique_ptr<Program>> programs; ///< decoded when they are first launched
  std::vector<std::unique_ptr<Global>> idle;
};

} // namespace divisi::test::ptx
