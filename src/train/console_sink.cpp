#include "train/console_sink.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <unistd.h>

namespace dllm::train {
namespace {

double number(const Event& event, const char* key) {
  const Event::Value* value = event.find(key);
  if (value == nullptr) return std::nan("");
  if (const auto* real = std::get_if<double>(value)) return *real;
  if (const auto* whole = std::get_if<int64_t>(value)) return static_cast<double>(*whole);
  return std::nan("");
}

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
    std::string line = fmt::format("held-out loss {:.4f} +- {:.4f}", number(event, "loss"),
                                   number(event, "stderr"));
    if (event.find("bits_per_byte") != nullptr)
      line += fmt::format(", {:.3f} bits per byte", number(event, "bits_per_byte"));
    return line + fmt::format(" at step {:.0f}", number(event, "step"));
  }
  if (event.kind() == EventKind::checkpoint) {
    const auto* dir = std::get_if<std::string>(event.find("dir"));
    return fmt::format("saved {}", dir != nullptr ? *dir : "");
  }
  return {};
}

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
    const bool last = progress.total > 0 && progress.done == progress.total;
    if (count_++ % every_ != 0 && !last) return;
    if (terminal_) {
      put("\r\x1b[2K" + progress_line(event, progress, 24)); // back to the left edge, line erased
      open_ = true;
    } else if (last || progress.seconds >= next_plain_) {
      put(progress_line(event, progress, 0) + "\n");
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
  double next_plain_ = 0;
};

} // namespace

std::string progress_line(const Event& event, const Progress& progress, int width) {
  std::string line = fmt::format("step {:.0f}", number(event, "step"));
  if (progress.total > 0) {
    const double part = static_cast<double>(progress.done) / static_cast<double>(progress.total);
    if (width > 0) {
      const int full = static_cast<int>(part * width);
      line += fmt::format(" [{:#>{}}{:.>{}}]", "", full, "", width - full);
    }
    line += fmt::format(" {:.0f} %", 100 * part);
  }
  line += fmt::format("  loss {:.4f}", number(event, "loss"));
  const double nll = number(event, "nll");
  if (std::isfinite(nll)) line += fmt::format("  nll {:.3f}", nll);
  line += fmt::format("  lr {:.2e}  {} tok/s", number(event, "lr"),
                      short_number(number(event, "tokens_per_second")));
  const double mfu = number(event, "mfu");
  if (std::isfinite(mfu) && mfu > 0) line += fmt::format("  mfu {:.0f} %", 100 * mfu);
  if (progress.total > 0 && progress.done > 0) {
    const double left = progress.seconds / static_cast<double>(progress.done) *
                        static_cast<double>(progress.total - progress.done);
    line += "  eta " + duration(left);
  }
  return line;
}

std::unique_ptr<Sink> make_console_sink(int64_t every) {
  return std::make_unique<ConsoleSink>(every);
}

} // namespace dllm::train
