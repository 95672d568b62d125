// CSV files. The input's first line has an element type and the columns that are read, as flags name them; the file
// follows.
#include "runtime/data/CsvFile.h"
#include "test/fuzz/parsers/Input.h"

#include <array>
#include <cmath>
#include <cstdlib>

using namespace divisi;
using namespace divisi::runtime;

namespace {
constexpr std::array types = {DataType::F64, DataType::F32, DataType::I64, DataType::I8, DataType::U8, DataType::BOOL};

/// Ends the fuzzer if a field was read as another number than the C library reads.
void compare(const std::string &text, double number) {
  char *end = nullptr;
  double expected = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size() || (expected != number && !(std::isnan(expected) && std::isnan(number))))
    std::abort();
}

/// `whole`: the columns are those of the file, in its order.
void read(const CsvFile &file, const CsvSamples &samples, DataType type, bool whole) {
  auto each = static_cast<int64_t>(samples.columns());
  std::string row(static_cast<size_t>(each * widthOf(type)), '\0');
  for (int64_t i = 0; i < samples.samples(); ++i) {
    samples.willNeed(i * each, each);
    if (!samples.read(i * each, each, row.data(), type).ok())
      continue;
    fuzz::use(row.data(), row.size());
    std::vector<std::string_view> fields = file.row(i);
    if (fields.size() != file.header().size())
      std::abort(); // accepted, although a row has other columns
    if (whole && type == DataType::F64)
      for (size_t column = 0; column < fields.size(); ++column)
        compare(file.textOf(fields[column]), readNumber(row.data() + column * sizeof(double), type));
  }
  if (samples.samples() > 0)
    samples.describe(each - 1, 7);
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view input = fuzz::text(data, size);
  size_t end = std::min(input.find('\n'), input.size());
  if (end == 0)
    return 0;
  auto path = parseCsvPath("x.csv:" + std::string(input.substr(1, end - 1)));
  auto file = CsvFile::open(fuzz::fileOf(input.substr(std::min(end + 1, size))));
  if (!file.ok() || !path || path->columns.empty())
    return 0;
  auto samples = CsvSamples::select(*file, path->columns);
  if (!samples.ok())
    return 0;
  (*samples)->willNeedAll();
  read(**file, **samples, types[data[0] % types.size()], path->columns == std::vector<std::string>{"*"});
  (*samples)->release();
  return 0;
}
