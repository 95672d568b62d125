//===- OpenImages.cpp - inputs that are fed with images -------------------===//
#include "divisi/suggest.h"
#include "runtime/data/BatchSource.h"
#include "runtime/data/images/ImageSamples.h"

using namespace divisi;
using namespace divisi::runtime;

Result<std::shared_ptr<ImageList>> BatchSource::imagesOf(const FileRange &paths) {
  std::vector<std::string> names;
  std::string all;
  for (auto it = paths.first; it != paths.second; ++it) {
    names.push_back(it->second);
    all += it->second + '\n';
  }
  std::shared_ptr<ImageList> &list = imageLists[all];
  if (!list) {
    Result<std::shared_ptr<ImageList>> opened = ImageList::open(names);
    if (!opened.ok())
      return opened.status();
    list = *opened;
  }
  return list;
}

Status BatchSource::openImages(Feed &feed, const FileRange &paths, const std::string &flag, const Note &note) {
  const Input &input = feed.input;
  if (!feed.constant && feed.rowsEach == 1 && feed.rowElements == 1 && !isFloat(input.dtype))
    return openLabels(feed, paths, flag);
  std::optional<ImageForm> form = ImageForm::of(feed.row.global, input.dtype);
  if (feed.constant || feed.rowsEach != 1 || !form)
    return failure(flag, " ", input.name, ": '", paths.first->second,
                   isTarPath(paths.first->second) ? "' is a tar file" : "' is a folder",
                   " of images, which are for inputs [N, C, H, W], [N, H, W, C] or [N, H, W] with C = 1 or 3, of floating-point "
                   "numbers or whole numbers that hold 0 to 255 (not I8 or BOOL), but the input takes ",
                   expectation(input, feed.constant));
  Result<std::shared_ptr<ImageList>> list = imagesOf(paths);
  if (!list.ok())
    return failure(flag, " ", input.name, ": ", list.status().message());
  feed.images = std::make_shared<ImageSamples>(*list, *form);
  feed.file = feed.images;
  size_t classes = (*list)->classes().size();
  if (note)
    note(concat(input.name, ": ", (*list)->size(), " images",
                classes > 0 ? concat(" of ", classes, classes == 1 ? " class" : " classes") : "", " in '",
                paths.first->second, "'"));
  return {};
}

bool BatchSource::hasImages() const {
  return std::any_of(feeds.begin(), feeds.end(), [](const Feed &feed) { return feed.images != nullptr; });
}

Status BatchSource::prepareImages(const ImageOptions &options, const Note &note) {
  for (const Feed &feed : feeds) {
    if (!feed.images)
      continue;
    const std::string &name = feed.input.name;
    const ImageForm &form = feed.images->form();
    for (auto [flag, numbers] : {std::pair("--mean", &options.mean), {"--std", &options.deviation}}) {
      if (numbers->size() > 1 && static_cast<int64_t>(numbers->size()) != form.channels)
        return Status::usage(concat(flag, ": ", numbers->size(), " numbers, but '", name, "' has ", form.channels,
                                    form.channels == 1 ? " channel" : " channels"));
      if (!numbers->empty() && !isFloat(form.type))
        return Status::usage(concat(flag, ": '", name, "' takes whole numbers, which are not normalised"));
    }
    if (options.shorter > 0 && options.shorter < std::max(form.height, form.width))
      return Status::usage(concat("--resize ", options.shorter, ": '", name, "' takes ", form.width, " x ", form.height,
                                  " pixels, which are more"));
    feed.images->use(options);
    if (note)
      note(concat(name, ": ", feed.images->description()));
  }
  return {};
}

Status BatchSource::openLabels(Feed &feed, const FileRange &paths, const std::string &flag) {
  const Input &input = feed.input;
  Result<std::shared_ptr<ImageList>> found = imagesOf(paths);
  if (!found.ok())
    return failure(flag, " ", input.name, ": ", found.status().message());
  const ImageList &list = **found;
  if (!list.hasLabels() && !isTarPath(list.path()))
    return failure(flag, " ", input.name, ": '", list.path(), "' has no folders of classes: give the labels as ",
                   input.name, "=FILE.npy or FILE.csv");
  auto classes = static_cast<int64_t>(list.classes().size());
  if (classes > 0 && input.range && classes > input.range->second)
    return failure(flag, " ", input.name, ": '", list.path(), "' has ", classes,
                   " folders of classes, but the input takes ", input.range->first, " to ", input.range->second - 1);
  feed.file = std::make_shared<ImageLabels>(*found);
  labelled[input.name] = *found;
  return {};
}

Status BatchSource::followImages(Feed &feed, const Files &files, const std::string &flag) {
  const ImageList *first = nullptr;
  std::string from;
  for (auto it = files.begin(); it != files.end(); it = files.upper_bound(it->first)) {
    if (!isImagePath(it->second))
      continue;
    FileRange paths = files.equal_range(it->first);
    Result<std::shared_ptr<ImageList>> found = imagesOf(paths);
    if (!found.ok())
      return failure(flag, " ", it->first, ": ", found.status().message());
    if (first && first->isUnlabelled())
      first = nullptr; // only the image is wanted
    if (first && !(*found)->isUnlabelled() && !first->agreesWith(**found))
      return failure(flag, ": the images of '", from, "' and '", it->first, "' have different labels: give those of '",
                     feed.input.name, "' as ", flag, " ", feed.input.name, "=FOLDER, FILE.npy or FILE.csv");
    if (!first)
      first = found->get(), from = it->first;
  }
  return openLabels(feed, files.equal_range(from), flag);
}

std::vector<int64_t> BatchSource::samplesOf(const Feed &feed, int64_t index) const {
  std::vector<int64_t> samples;
  int64_t begin = index * batch, rows = std::min(batch, sampleCount - begin);
  for (int64_t m = 0; m < feed.microbatches; ++m) {
    auto [first, end] = rowsOf(feed, m);
    for (int64_t r = first; r < std::min(end, rows); ++r)
      samples.push_back(sampleAt(begin + r));
  }
  return samples;
}

void BatchSource::expectImages(int64_t index) const {
  constexpr int64_t ahead = 2; // so that no thread waits while the last images of a batch are prepared
  for (const Feed &feed : feeds) {
    if (!feed.images || !feed.input.here)
      continue;
    std::vector<int64_t> samples = samplesOf(feed, index);
    for (int64_t next = index + 1; next <= index + ahead && next < fullBatches(); ++next)
      for (int64_t sample : samplesOf(feed, next))
        samples.push_back(sample);
    feed.images->expect(samples);
  }
}

void BatchSource::augment(uint64_t seed, uint64_t epoch) {
  for (const Feed &feed : feeds)
    if (feed.images)
      feed.images->draw(seed, epoch);
}

ClassNames BatchSource::classes() const {
  ClassNames names;
  for (const auto &[input, list] : labelled)
    for (const std::string &name : list->classes())
      names[input].push_back(printable(name));
  return names;
}

Status BatchSource::numberClassesAs(const ClassNames &trained, const std::string &flag) {
  for (const auto &[input, list] : labelled) {
    auto known = trained.find(input);
    std::vector<std::string> strange = known == trained.end() ? std::vector<std::string>() : list->numberAs(known->second);
    if (!strange.empty())
      return failure(flag, ": '", list->path(), "' has folders of classes that training did not have: ", namesOf(strange),
                     "; rename or remove them, or give the labels as a file");
  }
  return {};
}
