#include "live_view.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace dllm::cli {
namespace {

constexpr const char* kOpen = "\u2591";       // a light shade block stands for one open position
constexpr const char* kReset = "\x1b[0m";
constexpr const char* kFixed = "\x1b[1m";     // bold: given
constexpr const char* kSure = "\x1b[32m";     // green: decided with confidence of 0.9 and more
constexpr const char* kUnsure = "\x1b[33m";   // yellow: decided with less
constexpr const char* kMasked = "\x1b[2m";    // dim

int terminal_columns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

// Columns a UTF-8 text takes, escape sequences left out; wide characters are counted as one.
struct Cursor {
  int columns;
  int column = 0;
  int rows = 1;

  void put(std::string& out, const std::string& piece) {
    for (size_t i = 0; i < piece.size(); ++i) {
      const auto byte = static_cast<unsigned char>(piece[i]);
      if (byte == '\n') {
        ++rows;
        column = 0;
      } else if ((byte & 0xC0) != 0x80 && ++column > columns) {
        out += '\n';
        ++rows;
        column = 1;
      }
      out += byte == '\r' || byte == '\t' ? ' ' : piece[i];
    }
  }
};

const char* colour_of(const Canvas& canvas, size_t i) {
  if (canvas.states[i] == DLLM_FIXED) return kFixed;
  if (canvas.states[i] == DLLM_MASKED) return kMasked;
  return canvas.confidence[i] >= 0.9f ? kSure : kUnsure;
}

}  // namespace

LiveView::LiveView(const dllm_tokenizer* tokenizer)
    : tokenizer_(tokenizer), terminal_(isatty(STDERR_FILENO) != 0) {}

LiveView::~LiveView() {
  if (terminal_ && lines_ > 0) std::fputs(kReset, stderr);
}

std::string LiveView::render(const Canvas& canvas) const {
  std::string picture;
  Cursor cursor{terminal_columns()};
  for (size_t i = 0; i < canvas.ids.size(); ++i) {
    picture += colour_of(canvas, i);
    const bool open = canvas.states[i] == DLLM_MASKED;
    cursor.put(picture, open ? kOpen : decode(tokenizer_, {canvas.ids[i]}));
    picture += kReset;
  }
  return picture;
}

void LiveView::draw(const std::string& picture, const std::string& status) {
  std::string frame;
  if (lines_ > 0) frame = "\x1b[" + std::to_string(lines_) + "A\r\x1b[J";
  frame += picture + "\n" + status + "\n";
  lines_ = static_cast<int>(std::count(picture.begin(), picture.end(), '\n')) + 2;
  std::fputs(frame.c_str(), stderr);
  std::fflush(stderr);
}

void LiveView::clear() {
  if (!terminal_ || lines_ == 0) return;
  std::fprintf(stderr, "\x1b[%dA\r\x1b[J", lines_);
  lines_ = 0;
}

void LiveView::show(const Canvas& canvas, int64_t step, double open) {
  const std::string status =
      "step " + std::to_string(step) + ", " + std::to_string(static_cast<int64_t>(open)) + " open";
  if (terminal_) return draw(render(canvas), kMasked + status + kReset);
  std::fprintf(stderr, "%s\n", status.c_str());
}

}  // namespace dllm::cli
