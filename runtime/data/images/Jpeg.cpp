//===- Jpeg.cpp - decoding by libjpeg -------------------------------------===//
#include "runtime/data/images/Decode.h"

#include <csetjmp>
#include <cstdio>

#include <jpeglib.h>

#include <jerror.h>

using namespace divisi::runtime;

namespace {
/// Scans of a progressive file, each of which costs time for all pixels; real files have some ten.
constexpr int mostScans = 500;

/// libjpeg reports errors by a function that must not return. Functions that set `back` own nothing.
struct JpegReader {
  jpeg_error_mgr errors = {};
  jpeg_source_mgr source = {};
  jpeg_progress_mgr progress = {};
  jpeg_decompress_struct info = {};
  std::jmp_buf back = {};
  bool created = false;
  const char *reason = nullptr; ///< null: libjpeg's text
  char text[JMSG_LENGTH_MAX] = {};

  explicit JpegReader(std::string_view bytes);
  JpegReader(const JpegReader &) = delete;
  JpegReader &operator=(const JpegReader &) = delete;
  ~JpegReader() {
    if (created)
      jpeg_destroy_decompress(&info);
  }
  bool begin();
  bool read(uint8_t *to, size_t rowBytes);
};

[[noreturn]] void fail(j_common_ptr info, const char *reason) {
  auto *reader = static_cast<JpegReader *>(info->client_data);
  reader->reason = reason;
  std::longjmp(reader->back, 1);
}

void onError(j_common_ptr info) {
  if (info->err->msg_code == JERR_NO_BACKING_STORE) // it would go on in a file
    fail(info, "needs more than 512 MiB to be decoded: save it as a baseline JPEG instead of a progressive one");
  info->err->format_message(info, static_cast<JpegReader *>(info->client_data)->text);
  fail(info, nullptr);
}

boolean onEnd(j_decompress_ptr info) { fail(reinterpret_cast<j_common_ptr>(info), "is truncated"); }

void skip(j_decompress_ptr info, long count) {
  if (count <= 0)
    return;
  if (static_cast<size_t>(count) > info->src->bytes_in_buffer)
    onEnd(info);
  info->src->next_input_byte += count;
  info->src->bytes_in_buffer -= static_cast<size_t>(count);
}

void onProgress(j_common_ptr info) {
  if (info->is_decompressor && reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > mostScans)
    fail(info, "has too many scans");
}

JpegReader::JpegReader(std::string_view bytes) {
  info.err = jpeg_std_error(&errors);
  info.client_data = this;
  errors.error_exit = onError;
  // Warnings are about damage that decoders bridge; Pillow ignores them, too.
  errors.emit_message = [](j_common_ptr, int) {};
  errors.output_message = [](j_common_ptr) {};
  source.next_input_byte = reinterpret_cast<const JOCTET *>(bytes.data());
  source.bytes_in_buffer = bytes.size();
  source.init_source = source.term_source = [](j_decompress_ptr) {};
  source.fill_input_buffer = onEnd;
  source.skip_input_data = skip;
  source.resync_to_restart = jpeg_resync_to_restart;
  progress.progress_monitor = onProgress;
}

/// Reads the header. Returns whether it could be read.
bool JpegReader::begin() {
  if (setjmp(back))
    return false;
  jpeg_create_decompress(&info);
  created = true;
  info.mem->max_memory_to_use = mostJpegBytes;
  info.src = &source;
  info.progress = &progress;
  jpeg_read_header(&info, TRUE);
  info.out_color_space = info.num_components == 1 ? JCS_GRAYSCALE : info.num_components == 3 ? JCS_RGB : JCS_CMYK;
  return true;
}

/// Reads all pixels. Returns whether they could be read.
bool JpegReader::read(uint8_t *to, size_t rowBytes) {
  if (setjmp(back))
    return false;
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = to + info.output_scanline * rowBytes;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  return true;
}
} // namespace

Status divisi::runtime::decodeJpeg(std::string_view bytes, Pixels &to) {
  JpegReader reader(bytes);
  auto problem = [&] { return reader.reason ? failure(reader.reason) : failure("is damaged: ", reader.text); };
  if (!reader.begin())
    return problem();
  int64_t width = reader.info.image_width, height = reader.info.image_height, channels = reader.info.num_components;
  if (Status status = checkPixels(width, height); !status.ok())
    return status;
  if (channels != 1 && channels != 3 && channels != 4)
    return failure("has ", channels, " channels; JPEG images have 1, 3 or 4");
  to.resize(width, height, channels);
  return reader.read(to.data.data(), static_cast<size_t>(width * channels)) ? Status() : problem();
}
