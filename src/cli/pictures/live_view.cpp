#include "pictures.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace dllm::cli {
namespace {

constexpr size_t kBars = 24; // steps the confidence bars reach back

winsize size_of(std::FILE* to) {
  winsize size{};
  if (ioctl(fileno(to), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) size.ws_col = 80;
  if (size.ws_row == 0) size.ws_row = 24;
  return size;
}

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

bool can_draw(std::FILE* to) {
  const char* kind = std::getenv("TERM");
  return isatty(fileno(to)) != 0 && (kind == nullptr || std::string_view(kind) != "dumb");
}

} // namespace

LiveView::LiveView(std::FILE* to)
    : to_(to), terminal_(can_draw(to)), colour_(terminal_ && !is_set("NO_COLOR")) {}

// "step 12/64 · 20 open · confidence ▃▅▆▇ 0.81 · 14 evaluations": the bars are the means of the last steps, the highest is full.
std::string LiveView::status(const std::vector<TokenCell>& cells, const Progress& progress) {
  const char* between = terminal_ ? " \u00b7 " : ", ";
  std::string line = "step " + std::to_string(progress.step);
  if (progress.planned >= progress.step && progress.planned > 0)
    line += "/" + std::to_string(progress.planned);
  line += between + std::to_string(progress.open) + " open" + between;
  const float mean = mean_confidence(cells);
  if (mean > 0) {
    means_.push_back(mean);
    const size_t first = means_.size() > kBars ? means_.size() - kBars : 0;
    char number[16];
    std::snprintf(number, sizeof number, "%.2f", static_cast<double>(mean));
    line += "confidence ";
    // The bars compare the steps with each other: a small model is never sure.
    const float most = *std::max_element(means_.begin(), means_.end());
    std::vector<float> heights(means_.begin() + static_cast<std::ptrdiff_t>(first), means_.end());
    for (float& height : heights) height /= most;
    if (terminal_) line += bars(heights) + " ";
    line += number + std::string(between);
  }
  return line + std::to_string(progress.evaluations) + " evaluations";
}

void LiveView::show(const std::vector<TokenCell>& cells, const Progress& progress) {
  const std::string line = status(cells, progress);
  if (!terminal_) {
    std::fprintf(to_, "%s\n", line.c_str());
    return;
  }
  const winsize size = size_of(to_);
  // A full row makes some terminals begin a new one: the last column stays free.
  const auto rows = visible_rows(draw_rows(cells, size.ws_col - 1, colour_),
                                 static_cast<size_t>(std::max(size.ws_row - 3, 1)));
  std::string frame;
  if (lines_ > 0) frame = "\x1b[" + std::to_string(lines_) + "A\r\x1b[J";
  for (const std::string& row : rows) frame += row + "\n";
  const std::string cut = cut_to(line, size.ws_col - 1);
  frame += (colour_ ? "\x1b[2m" + cut + "\x1b[0m" : cut) + "\n";
  lines_ = rows.size() + 1;
  std::fputs(frame.c_str(), to_);
  std::fflush(to_);
}

void LiveView::clear() {
  if (!terminal_ || lines_ == 0) return;
  std::fprintf(to_, "\x1b[%zuA\r\x1b[J", lines_);
  lines_ = 0;
}

} // namespace dllm::cli
