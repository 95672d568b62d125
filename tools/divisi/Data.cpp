// divisi data: what files of data would feed to a program.
#include "divisi/Commands.h"

#include "runtime/data/CsvFile.h"
#include "runtime/data/NpyFile.h"
#include "runtime/data/TokenFiles.h"
#include "runtime/data/images/ImageList.h"
#include "runtime/main/OneLine.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <map>

using namespace divisi;
using namespace divisi::runtime;

namespace {
struct DataFlags {
  std::vector<std::string> files;
  int64_t window = 0;
  std::string tokenType;
};

using Lines = std::vector<std::string>; // may hold anything that files do

constexpr int64_t mostShown = 8;

/// The first numbers of a text list, and that there are more.
template <typename Each> std::string firstOf(int64_t count, const Each &each) {
  std::string text;
  for (int64_t i = 0; i < std::min(count, mostShown); ++i)
    text += concat(i ? ", " : "", each(i));
  return count > mostShown ? text + ", ..." : text;
}

Result<Lines> describeArray(const std::string &path) {
  Result<NpyFile> file = NpyFile::open(path);
  if (!file.ok())
    return file.status();
  const Shape &shape = file->shape();
  if (shape.empty())
    return Lines{concat("one number of ", nameOf(file->dtype()), ": the same in every batch")};
  return Lines{concat(shape[0], " rows of ", nameOf(file->dtype()), " ", toString(Shape(shape.begin() + 1, shape.end())))};
}

Result<Lines> describeTokens(const std::string &path, const DataFlags &flags) {
  auto files = TokenFiles::open({path}, flags.tokenType == "uint32" ? DataType::U32 : DataType::U16);
  if (!files.ok())
    return files.status();
  const TokenFiles::File &first = (*files)->files().front();
  int64_t tokens = 0, windows = 0;
  bool wide = false;
  for (const TokenFiles::File &file : (*files)->files()) {
    tokens += file.tokens;
    windows += flags.window > 0 ? std::max<int64_t>(file.tokens - 1, 0) / flags.window : 0;
    wide |= file.looksWide();
  }
  std::string text = concat(tokens, " tokens of ", nameOf(first.type), first.hasHeader ? ", as llm.c writes them" : ", without a header");
  if ((*files)->files().size() > 1)
    text += concat(", in ", (*files)->files().size(), " files");
  if (flags.window > 0)
    text += concat(", ", windows, " windows of ", flags.window);
  Lines lines = {text, concat("first tokens: ", firstOf(first.tokens, [&](int64_t i) { return first.token(i); }))};
  if (wide && flags.tokenType.empty())
    lines.emplace_back("they seem to have 32 bits, because every second number of 16 bits is 0: --token-type uint32");
  return lines;
}

Result<Lines> describeCsv(const CsvPath &path) {
  Result<std::shared_ptr<CsvFile>> file = CsvFile::open(path.file);
  if (!file.ok())
    return file.status();
  std::vector<std::string> columns = (*file)->header();
  if (!path.columns.empty()) {
    Result<std::shared_ptr<CsvSamples>> chosen = CsvSamples::select(*file, path.columns);
    if (!chosen.ok())
      return chosen.status();
    return Lines{concat((*file)->rows(), " rows of ", (*chosen)->columns(), " of ", columns.size(), " columns")};
  }
  Lines lines = {concat((*file)->rows(), " rows of ", columns.size(), " columns: ",
                            firstOf(static_cast<int64_t>(columns.size()), [&](int64_t i) { return "'" + columns[static_cast<size_t>(i)] + "'"; }))};
  if ((*file)->rows() > 0) {
    std::vector<std::string_view> row = (*file)->row(0);
    lines.push_back("first row: " + firstOf(static_cast<int64_t>(row.size()), [&](int64_t i) { return (*file)->textOf(row[static_cast<size_t>(i)]); }));
  }
  return lines;
}

Result<Lines> describeImages(const std::string &path) {
  Result<std::shared_ptr<ImageList>> list = ImageList::open({path});
  if (!list.ok())
    return list.status();
  const std::vector<std::string> &classes = (*list)->classes();
  std::map<int64_t, int64_t> counts;
  int64_t unlabelled = 0;
  for (int64_t i = 0; i < (*list)->size(); ++i)
    if (std::optional<int64_t> label = (*list)->labelOf(i))
      ++counts[*label];
    else
      ++unlabelled;
  std::string text = concat((*list)->size(), " images", counts.empty() ? ", without labels" : "");
  Lines lines = {"", concat("first: '", (*list)->nameOf(0), "'")};
  if (!counts.empty()) {
    text += concat(", labels ", counts.begin()->first, " to ", counts.rbegin()->first, unlabelled > 0 ? concat(" (", unlabelled, " have none)") : "");
    auto at = counts.begin();
    lines.push_back("images of each: " + firstOf(static_cast<int64_t>(counts.size()), [&](int64_t) {
      auto [label, count] = *at++;
      bool named = label >= 0 && label < static_cast<int64_t>(classes.size());
      return concat(label, named ? concat(" ('", classes[static_cast<size_t>(label)], "')") : "", ": ", count);
    }));
  }
  lines.front() = text;
  return lines;
}

Result<Lines> describe(const std::string &path, const DataFlags &flags) {
  if (isTokenPath(path))
    return describeTokens(path, flags);
  if (isImagePath(path))
    return describeImages(path);
  if (std::optional<CsvPath> csv = parseCsvPath(path))
    return describeCsv(*csv);
  return describeArray(path);
}

} // namespace

void tools::addData(CLI::App &app, int &exitCode) {
  CLI::App *command = app.add_subcommand("data", "what files of data would feed to a program");
  auto flags = std::make_shared<DataFlags>();
  command->add_option("FILE", flags->files, "what --data of a program takes after NAME=: FILE.npy, FILE.csv[:COLUMN,...], 'tokens*.bin', FOLDER or 'part-*.tar'")
      ->required();
  command->add_option("--window", flags->window, "tokens of a sample: says how many windows there are")->check(CLI::Range(int64_t(1), int64_t(1) << 40));
  command->add_option("--token-type", flags->tokenType, "tokens in files without llm.c's header [uint16]")->check(CLI::IsMember({"uint16", "uint32"}));
  command->footer("Example:\n  divisi data 'train_*.bin' --window 1024");
  command->callback([flags, &exitCode] {
    for (const std::string &path : flags->files) {
      Result<Lines> lines = describe(path, *flags);
      if (!lines.ok()) {
        llvm::errs() << "error: " << oneLine(lines.status().message()) << "\n";
        exitCode = 1;
        continue;
      }
      llvm::outs() << oneLine(path) << ": ";
      for (const std::string &line : *lines)
        llvm::outs() << (&line == lines->data() ? "" : "  ") << oneLine(line) << "\n";
    }
  });
}
