#include "ckpt/box_reader.h"

#include <algorithm>
#include <cstring>

namespace dllm::ckpt {
namespace {

// A gap of fewer bytes between two runs costs less to read than a second call. The value is small,
// because an object store itself caches the bytes around a small read.
constexpr int64_t kGap = int64_t{1} << 10;

// Runs [first, last) of a box, and the range of the file that holds them.
struct Window {
  int64_t first, last;
  int64_t begin, end;
};

// Returns the runs from `first` on that one read covers. The gaps between these runs are small, and
// the read has at most the size of a piece.
Window window_from(const Content& content, int64_t at, int64_t unit, const BoxRuns& runs,
                   int64_t first) {
  const int64_t length = runs.length() * unit, begin = at + runs.begin(first) * unit;
  Window window{first, first + 1, begin, begin + length};
  for (; window.last < runs.count(); ++window.last) {
    const int64_t next = at + runs.begin(window.last) * unit;
    const bool is_near = next - window.end < kGap;
    if (!is_near || next + length - window.begin > content.piece()) break;
    window.end = next + length;
  }
  return window;
}

} // namespace

void read_box(const Content& content, int64_t at, int64_t unit, const Shape& whole, const Box& box,
              std::byte* to, const Task* task) {
  const BoxRuns runs(whole, box);
  const int64_t length = runs.length() * unit;
  for (int64_t run = 0; run < runs.count();) {
    check_task(task);
    const Window window = window_from(content, at, unit, runs, run);
    const int64_t bytes = (window.last - window.first) * length;
    if (window.end - window.begin == bytes) { // no gaps
      in_pieces(bytes, content.piece(), task, [&](int64_t begin, int64_t end) {
        content.read_to(window.begin + begin, end - begin, to + begin);
      });
    } else {
      const Bytes held = content.read(window.begin, window.end - window.begin);
      for (int64_t i = window.first; i < window.last; ++i)
        std::memcpy(to + (i - window.first) * length,
                    held.data() + (at + runs.begin(i) * unit - window.begin),
                    static_cast<size_t>(length));
    }
    to += bytes;
    run = window.last;
  }
}

} // namespace dllm::ckpt
