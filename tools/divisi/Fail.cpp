#include "divisi/Fail.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/raw_ostream.h"

int divisi::tools::fail(const llvm::Twine &message, int code) {
  llvm::errs() << "error: " << message << "\n";
  return code;
}

int divisi::tools::fail(llvm::Error error) {
  int code = 1;
  std::string text;
  llvm::handleAllErrors(std::move(error), [&](const llvm::ErrorInfoBase &one) {
    if (one.convertToErrorCode() == std::errc::invalid_argument)
      code = 2;
    text = one.message();
  });
  return text.empty() ? code : fail(text, code);
}
