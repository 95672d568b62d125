#include "divisi/Version.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Config/llvm-config.h"

#include <CLI/CLI.hpp>
#include <dnnl_version.h>
#include <google/protobuf/stubs/common.h>
#include <jconfig.h>
#include <nlohmann/json.hpp>
#include <openblas_config.h>
#include <png.h>

using namespace divisi;

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

/// The version of Protocol Buffers as text: 3021012 is 3.21.12.
static std::string protobufVersion() {
  int number = GOOGLE_PROTOBUF_VERSION;
  return std::to_string(number / 1000000) + "." + std::to_string(number / 1000 % 1000) + "." +
         std::to_string(number % 1000);
}

std::string tools::describeVersion() {
  std::string text = "divisi " DIVISI_VERSION;
  if (*DIVISI_COMMIT)
    text += " (" DIVISI_COMMIT ")";
  text += "\n  LLVM and MLIR " LLVM_VERSION_STRING "\n  Protocol Buffers " + protobufVersion();
  text += "\n " OPENBLAS_VERSION "\n  oneDNN " TEXT(DNNL_VERSION_MAJOR) "." TEXT(DNNL_VERSION_MINOR) ".";
  text += TEXT(DNNL_VERSION_PATCH) "\n  libjpeg-turbo " TEXT(LIBJPEG_TURBO_VERSION) "\n  libpng " PNG_LIBPNG_VER_STRING "\n  MPI " DIVISI_MPI_VERSION "\n  CLI11 " CLI11_VERSION "\n  JSON for Modern C++ ";
  text += TEXT(NLOHMANN_JSON_VERSION_MAJOR) "." TEXT(NLOHMANN_JSON_VERSION_MINOR) "." TEXT(NLOHMANN_JSON_VERSION_PATCH);
  return text + "\n  " __VERSION__ " (compiler)";
}
