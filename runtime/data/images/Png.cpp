//===- Png.cpp - decoding by libpng ---------------------------------------===//
#include "runtime/data/images/Decode.h"

#include <csetjmp>
#include <cstring>
#include <png.h>

using namespace divisi::runtime;

namespace {
/// libpng reports errors by a function that must not return. Functions that set `back` own nothing.
struct PngReader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::string_view rest; ///< bytes that are not read yet
  std::jmp_buf back = {};
  bool truncated = false;
  char text[128] = {};

  explicit PngReader(std::string_view bytes) : rest(bytes) {}
  PngReader(const PngReader &) = delete;
  PngReader &operator=(const PngReader &) = delete;
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
  bool begin();
  bool convert();
  bool read(png_bytepp rows);
};

void onError(png_structp png, png_const_charp text) {
  auto *reader = static_cast<PngReader *>(png_get_error_ptr(png));
  std::strncpy(reader->text, text, sizeof(reader->text) - 1);
  std::longjmp(reader->back, 1);
}

void onRead(png_structp png, png_bytep to, size_t count) {
  auto *reader = static_cast<PngReader *>(png_get_io_ptr(png));
  reader->truncated = count > reader->rest.size();
  if (reader->truncated)
    png_error(png, "truncated");
  std::memcpy(to, reader->rest.data(), count);
  reader->rest.remove_prefix(count);
}

/// Reads the header. Returns whether it could be read.
bool PngReader::begin() {
  if (setjmp(back))
    return false;
  png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, onError, [](png_structp, png_const_charp) {});
  info = png ? png_create_info_struct(png) : nullptr;
  if (!info)
    return false;
  png_set_read_fn(png, this, onRead);
  // Texts, profiles and the like change no pixels here, and may need far more memory than the file has bytes.
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_chunk_malloc_max(png, mostChunkBytes);
  png_read_info(png, info);
  return true;
}

/// Has libpng make gray or RGB of 8 bits of any kind. Returns whether it can.
bool PngReader::convert() {
  if (setjmp(back))
    return false;
  png_set_palette_to_rgb(png);
  if (png_get_color_type(png, info) == PNG_COLOR_TYPE_GRAY)
    png_set_expand_gray_1_2_4_to_8(png);
  png_set_strip_16(png); // keeps the higher byte
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  return true;
}

/// Reads all pixels. Returns whether they could be read.
bool PngReader::read(png_bytepp rows) {
  if (setjmp(back))
    return false;
  png_read_image(png, rows);
  return true;
}
} // namespace

Status divisi::runtime::decodePng(std::string_view bytes, Pixels &to) {
  PngReader reader(bytes);
  auto problem = [&] { return reader.truncated ? failure("is truncated") : failure("is damaged: ", reader.text); };
  if (!reader.begin())
    return problem();
  int64_t width = png_get_image_width(reader.png, reader.info), height = png_get_image_height(reader.png, reader.info);
  if (Status status = checkPixels(width, height); !status.ok())
    return status;
  if (!reader.convert())
    return problem();
  int64_t channels = png_get_channels(reader.png, reader.info);
  if ((channels != 1 && channels != 3) ||
      png_get_rowbytes(reader.png, reader.info) != static_cast<size_t>(width * channels))
    return failure("is damaged: its pixels are neither gray nor colours");
  to.resize(width, height, channels);
  std::vector<png_bytep> rows;
  for (int64_t y = 0; y < height; ++y)
    rows.push_back(to.row(y));
  return reader.read(rows.data()) ? Status() : problem();
}
