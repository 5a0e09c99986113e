#include "train/sinks/console_sink.h"

#include "train/sinks/event_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sys/ioctl.h>
#include <unistd.h>
#include <vector>

namespace dllm::train {
namespace {

std::string duration(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole >= 3600)
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string short_number(double value) {
  if (value >= 1e6) return fmt::format("{:.1f}M", value / 1e6);
  if (value >= 1e4) return fmt::format("{:.1f}k", value / 1e3);
  return fmt::format("{:.0f}", value);
}

std::string other_line(const Event& event) {
  if (event.kind() == EventKind::eval) {
    std::string line = fmt::format("held-out loss {:.4f}", number_of(event, "loss"));
    if (const double error = number_of(event, "stderr"); std::isfinite(error))
      line += fmt::format(" +- {:.4f}", error);
    else
      line += " (too few rows for an error estimate)";
    if (event.find("bits_per_byte") != nullptr)
      line += fmt::format(", {:.3f} bits per byte", number_of(event, "bits_per_byte"));
    return line + fmt::format(" at step {:.0f}", number_of(event, "step"));
  }
  if (event.kind() == EventKind::checkpoint) {
    const auto* dir = std::get_if<std::string>(event.find("dir"));
    std::string line = fmt::format("saved {}", dir != nullptr ? *dir : "");
    constexpr double kShown = 0.05; // seconds
    const double stall = number_of(event, "stall_seconds");
    if (stall >= kShown) line += fmt::format(", training stood still for {:.1f} s", stall);
    return line;
  }
  return {};
}

// Returns the tokens of all steps up to this one.
double tokens_of(const Event& event) {
  const double tokens = number_of(event, "tokens");
  return std::isfinite(tokens) ? tokens : 0;
}

// Returns the width of the terminal of standard error now, because it may have been resized.
int terminal_columns() {
  constexpr int kUsual = 80;
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* text = std::getenv("COLUMNS");
  const int columns = text != nullptr ? std::atoi(text) : 0;
  return columns > 0 ? columns : kUsual;
}

// A mean over the last steps with the largest weight on the latest. The loss of one batch is mostly
// noise.
class MovingMean {
public:
  double add(double value) {
    if (!std::isfinite(value)) return value;
    constexpr double kKept = 0.95; // about 20 steps
    sum_ = kKept * sum_ + value;
    weight_ = kKept * weight_ + 1;
    return sum_ / weight_;
  }

private:
  double sum_ = 0, weight_ = 0;
};

class ConsoleSink final : public Sink {
public:
  explicit ConsoleSink(int64_t every) : every_(every), terminal_(isatty(STDERR_FILENO) != 0) {}
  ~ConsoleSink() override { finish(); }

  void write(const Event& event, const Progress& progress) override {
    if (event.kind() != EventKind::train_step) {
      finish();
      const std::string line = other_line(event);
      if (!line.empty()) put(line + "\n");
      return;
    }
    Event shown = event;
    shown.set("loss", loss_.add(number_of(event, "loss")));
    if (event.find("nll") != nullptr) shown.set("nll", nll_.add(number_of(event, "nll")));
    const bool last = (progress.total > 0 && progress.done == progress.total) ||
                      (progress.token_budget > 0 &&
                       tokens_of(shown) >= static_cast<double>(progress.token_budget));
    if (count_++ % every_ != 0 && !last) return;
    if (terminal_) {
      // Moves to the left edge and erases the line. The last column stays free, because some
      // terminals begin a new row after a full one.
      put("\r\x1b[2K" + progress_line(shown, progress, std::max(terminal_columns() - 1, 1)));
      open_ = true;
    } else if (last || progress.seconds >= next_plain_) {
      put(progress_line(shown, progress, 0) + "\n");
      next_plain_ = progress.seconds + kPlainSeconds;
    }
  }
  void finish() override {
    if (open_) put("\n");
    open_ = false;
    next_plain_ = 0;
  }

private:
  static constexpr double kPlainSeconds = 2.0; // between plain lines: a log stays readable
  static void put(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
  }

  int64_t every_;
  bool terminal_;
  bool open_ = false;
  int64_t count_ = 0;
  MovingMean loss_, nll_;
  double next_plain_ = 0;
};

} // namespace

namespace {

// Returns the largest of the shares of steps, minutes and tokens; negative: unknown.
double part_done(const Event& event, const Progress& progress) {
  double part = -1;
  if (progress.total > 0)
    part = static_cast<double>(progress.done) / static_cast<double>(progress.total);
  if (progress.budget > 0)
    part = std::max(part, (progress.begin_seconds + progress.seconds) / progress.budget);
  if (progress.token_budget > 0)
    part = std::max(part, tokens_of(event) / static_cast<double>(progress.token_budget));
  return std::min(part, 1.0);
}

// Returns the seconds until the steps, the minutes or the tokens are used up, whichever comes
// first; negative: unknown.
double seconds_left(const Event& event, const Progress& progress) {
  double left = -1;
  if (progress.total > 0 && progress.taken > 0) {
    left = progress.seconds / static_cast<double>(progress.taken) *
           static_cast<double>(progress.total - progress.done);
  }
  if (progress.budget > 0) {
    const double clock = std::max(progress.budget - progress.begin_seconds - progress.seconds, 0.0);
    left = left < 0 ? clock : std::min(left, clock);
  }
  const double tokens = tokens_of(event), read = tokens - static_cast<double>(progress.token_begin);
  if (progress.token_budget > 0 && read > 0) {
    const double rest = std::max(static_cast<double>(progress.token_budget) - tokens, 0.0);
    const double seconds = progress.seconds / read * rest;
    left = left < 0 ? seconds : std::min(left, seconds);
  }
  return left;
}

// A part of the line. Parts with rank 0 are never left out; of the others the highest rank is left
// out first.
struct Field {
  int rank;
  std::string text;
};

std::string bar_of(double part, int columns) {
  const int full = static_cast<int>(part * columns);
  return fmt::format("[{:#>{}}{:.>{}}]", "", full, "", columns - full);
}

std::vector<Field> fields_of(const Event& event, const Progress& progress, bool with_bar) {
  std::vector<Field> fields = {{0, fmt::format("step {:.0f}", number_of(event, "step"))}};
  const double part = part_done(event, progress), left = seconds_left(event, progress);
  if (part >= 0) {
    constexpr int kBar = 16;
    if (with_bar) fields.push_back({7, bar_of(part, kBar)});
    fields.push_back({2, fmt::format("{:.0f} %", std::floor(100 * part))});
  }
  fields.push_back({1, fmt::format("loss {:.4f}", number_of(event, "loss"))});
  const double nll = number_of(event, "nll"), mfu = number_of(event, "mfu");
  if (std::isfinite(nll)) fields.push_back({8, fmt::format("nll {:.3f}", nll)});
  const double padding = number_of(event, "padding_share");
  if (padding > 0) fields.push_back({10, fmt::format("padding {:.0f} %", 100 * padding)});
  fields.push_back({5, fmt::format("lr {:.2e}", number_of(event, "lr"))});
  fields.push_back({4, short_number(number_of(event, "tokens_per_second")) + " tok/s"});
  if (std::isfinite(mfu) && mfu > 0) fields.push_back({6, fmt::format("mfu {:.0f} %", 100 * mfu)});
  constexpr double kWaitShown = 0.05; // seconds of one step
  const double wait = number_of(event, "input_wait");
  if (wait >= kWaitShown) fields.push_back({9, fmt::format("input wait {:.2f} s", wait)});
  if (left >= 0) fields.push_back({3, "eta " + duration(left)});
  return fields;
}

std::string joined(const std::vector<Field>& fields) {
  std::string line;
  for (const Field& field : fields) line += (line.empty() ? "" : "  ") + field.text;
  return line;
}

} // namespace

std::string progress_line(const Event& event, const Progress& progress, int columns) {
  std::vector<Field> fields = fields_of(event, progress, columns > 0);
  if (columns <= 0) return joined(fields);
  const auto room = static_cast<size_t>(columns);
  while (fields.size() > 1 && joined(fields).size() > room) {
    fields.erase(std::max_element(fields.begin(), fields.end(),
                                  [](const Field& a, const Field& b) { return a.rank < b.rank; }));
  }
  return joined(fields).substr(0, room);
}

std::unique_ptr<Sink> make_console_sink(const std::string& /*target*/, const Options& options) {
  return std::make_unique<ConsoleSink>(options.i64("every"));
}

} // namespace dllm::train
