#include "pictures.h"

#include "dllm/base.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

namespace dllm::cli {
namespace {

constexpr int kShades = 10; // of confidence
// Most positions at which the final tokens are written under their columns.
constexpr size_t kWordColumns = 48;
constexpr int kLeft = 62, kTop = 64, kRight = 24;

// Classes: m open, p provisional, f given, c0..c9 decided by confidence.
constexpr std::string_view kStyle = R"(<style>
  svg { --ink: #1c1b1a; --soft: #6d6a64; --page: #ffffff; --m: #e5e3de; --p: #ffc233; --f: #8d8a84;
    --c0: #e2f0fb; --c1: #cbe4f7; --c2: #b0d5f1; --c3: #93c4ea; --c4: #74b1e0; --c5: #569cd4;
    --c6: #3c87c5; --c7: #2771b2; --c8: #165b9a; --c9: #08447f; }
  @media (prefers-color-scheme: dark) { svg { --ink: #ececea; --soft: #9b9da3; --page: #1a1b1e; --m: #2d3036;
    --p: #d79b1e; --f: #6c6f76; --c0: #10324f; --c1: #133f65; --c2: #174e7d; --c3: #1d5f96; --c4: #2672af;
    --c5: #3787c6; --c6: #529dd8; --c7: #74b4e6; --c8: #9accf2; --c9: #c4e3fb; } }
  text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--soft); }
  .title { font-size: 16px; font-weight: 600; fill: var(--ink); } .word { font-size: 11px; fill: var(--ink); }
  .end { text-anchor: end; } .middle { text-anchor: middle; } .page { fill: var(--page); }
  .m { fill: var(--m); } .p { fill: var(--p); } .f { fill: var(--f); }
  .c0 { fill: var(--c0); } .c1 { fill: var(--c1); } .c2 { fill: var(--c2); } .c3 { fill: var(--c3); } .c4 { fill: var(--c4); }
  .c5 { fill: var(--c5); } .c6 { fill: var(--c6); } .c7 { fill: var(--c7); } .c8 { fill: var(--c8); } .c9 { fill: var(--c9); }
</style>
)";

std::string class_of(uint8_t state, double confidence) {
  switch (state) {
  case DLLM_MASKED: return "m";
  case DLLM_PROVISIONAL: return "p";
  case DLLM_FIXED: return "f";
  default:
    return "c" + std::to_string(std::clamp(static_cast<int>(confidence * kShades), 0, kShades - 1));
  }
}

// Returns the class of positions [begin, end) of a step: the most frequent state, and its mean
// confidence.
std::string class_of(const TraceStep& step, size_t begin, size_t end) {
  std::array<int, 4> count{};
  std::array<double, 4> sum{};
  for (size_t i = begin; i < std::min(end, step.ids.size()); ++i) {
    ++count[step.states[i]];
    sum[step.states[i]] += step.confidence[i];
  }
  const auto most = std::max_element(count.begin(), count.end()) - count.begin();
  const auto state = static_cast<size_t>(most);
  return count[state] == 0 ? "" : class_of(static_cast<uint8_t>(state), sum[state] / count[state]);
}

// Returns the first of 1, 2, 5, 10, 20, 50, ... that is not below `least`.
double round_number(double least) {
  double number = 1;
  for (int i = 0; number < least; ++i) number *= i % 3 == 1 ? 2.5 : 2;
  return number;
}

class HeatMap {
public:
  HeatMap(const Trace& trace, const TraceSlot& slot)
      : trace_(trace), slot_(slot), positions_(slot.positions()),
        rows_(thinned(slot.steps.size(), kMostRows)) {
    per_column_ = std::max<size_t>((positions_ + kMostColumns - 1) / kMostColumns, 1);
    columns_ = std::max<size_t>((positions_ + per_column_ - 1) / per_column_, 1);
    cell_x_ = std::clamp(static_cast<int>(900 / columns_), 3, 30);
    cell_y_ = std::clamp(static_cast<int>(480 / rows_.size()), 3, 22);
    words_ = positions_ <= kWordColumns && !trace.tokens.empty();
    if (words_) texts_ = trace.texts_of(slot.steps.back());
    width_ = std::max(kLeft + static_cast<int>(columns_) * cell_x_ + kRight, 620);
    bottom_ = kTop + static_cast<int>(rows_.size()) * cell_y_;
    under_ = words_ ? 24 + longest_word() * 11 / 2 : 16;
    height_ = bottom_ + under_ + 60;
  }

  std::string draw() {
    put("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" "
        "style=\"max-width:100%;height:auto\" role=\"img\">\n",
        width_, height_);
    const std::string model =
        trace_.model.empty() ? "" : " \u00b7 " + xml_text(cut_to(visible_text(trace_.model), 60));
    put("<title>Decoding, slot {}{}</title>\n", slot_.number, model);
    out_ += kStyle;
    put("<rect class=\"page\" width=\"{}\" height=\"{}\"/>\n", width_, height_);
    put("<text class=\"title\" x=\"{}\" y=\"26\">Which position was decided when, and how "
        "surely</text>\n",
        kLeft);
    const TraceStep& last = slot_.steps.back();
    put("<text x=\"{}\" y=\"46\">slot {} \u00b7 {} positions \u00b7 {} steps \u00b7 {} network "
        "evaluations{}</text>\n",
        kLeft, slot_.number, positions_, last.step, last.evaluations, model);
    cells();
    step_axis();
    if (words_)
      words();
    else
      position_axis();
    legend();
    out_ += "</svg>\n";
    return std::move(out_);
  }

private:
  template <class... A> void put(fmt::format_string<A...> format, A&&... arguments) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<A>(arguments)...);
  }

  int gap(int cell) const { return cell >= 6 ? 1 : 0; }

  // Neighbouring cells of one colour are one rectangle when no gap separates cells.
  void cells() {
    for (size_t row = 0; row < rows_.size(); ++row) {
      const TraceStep& step = slot_.steps[rows_[row]];
      for (size_t column = 0; column < columns_;) {
        const std::string kind = class_of(step, column * per_column_, (column + 1) * per_column_);
        size_t end = column + 1;
        while (gap(cell_x_) == 0 && end < columns_ &&
               class_of(step, end * per_column_, (end + 1) * per_column_) == kind)
          ++end;
        if (!kind.empty()) {
          put("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n", kind,
              kLeft + static_cast<int>(column) * cell_x_, kTop + static_cast<int>(row) * cell_y_,
              static_cast<int>(end - column) * cell_x_ - gap(cell_x_), cell_y_ - gap(cell_y_));
        }
        column = end;
      }
    }
  }

  // A label every 1, 2, 5, 10, ... steps, at least 18 pixels apart.
  void step_axis() {
    const size_t stride = rows_.size() < 2 ? 1 : rows_[1] - rows_[0];
    const auto every = static_cast<int64_t>(round_number(18.0 / cell_y_));
    for (size_t row = 0; row < rows_.size(); ++row) {
      const int64_t step = slot_.steps[rows_[row]].step;
      if (stride == 1 ? step % every != 0 : static_cast<int64_t>(row) % every != 0) continue;
      put("<text class=\"end\" x=\"{}\" y=\"{}\">{}</text>\n", kLeft - 8,
          kTop + static_cast<int>(row) * cell_y_ + cell_y_ / 2 + 4, step);
    }
    const int middle = (kTop + bottom_) / 2;
    put("<text class=\"middle\" transform=\"translate(16 {}) rotate(-90)\">step</text>\n", middle);
  }

  void position_axis() {
    const double per_position = static_cast<double>(cell_x_) / static_cast<double>(per_column_);
    const auto every = static_cast<size_t>(round_number(44 / per_position));
    for (size_t position = 0; position < positions_; position += every) {
      put("<text x=\"{:.0f}\" y=\"{}\">{}</text>\n",
          kLeft + static_cast<double>(position) * per_position, bottom_ + 16, position);
    }
    put("<text class=\"middle\" x=\"{}\" y=\"{}\">position</text>\n",
        kLeft + static_cast<int>(columns_) * cell_x_ / 2, bottom_ + under_ + 18);
  }

  static constexpr int kWordWidth = 14;

  std::string word(size_t position) const {
    return cut_to(visible_text(texts_[position]), kWordWidth);
  }

  int longest_word() const {
    int longest = 0;
    for (size_t i = 0; i < texts_.size(); ++i) longest = std::max(longest, width_of(word(i)));
    return longest;
  }

  // The final tokens, written downwards under their columns.
  void words() {
    for (size_t i = 0; i < texts_.size(); ++i) {
      const std::string text = xml_text(word(i));
      if (text.empty()) continue;
      put("<text class=\"word end\" xml:space=\"preserve\" transform=\"translate({} {}) "
          "rotate(-60)\">{}</text>\n",
          kLeft + static_cast<int>(i) * cell_x_ + cell_x_ / 2 + 4, bottom_ + 14, text);
    }
    put("<text class=\"middle\" x=\"{}\" y=\"{}\">position, with its last token</text>\n",
        kLeft + static_cast<int>(columns_) * cell_x_ / 2, bottom_ + under_ + 18);
  }

  void legend() {
    int x = kLeft;
    const int y = height_ - 26;
    const auto entry = [&](const char* kind, const char* label, int width) {
      put("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"14\" height=\"14\" rx=\"3\"/><text "
          "x=\"{}\" "
          "y=\"{}\">{}</text>\n",
          kind, x, y, x + 20, y + 11, label);
      x += width;
    };
    entry("m", "open", 70);
    entry("p", "provisional", 104);
    entry("f", "given", 74);
    for (int shade = 0; shade < kShades; ++shade) {
      put("<rect class=\"c{}\" x=\"{}\" y=\"{}\" width=\"14\" height=\"14\"/>\n", shade,
          x + 14 * shade, y);
    }
    put("<text x=\"{}\" y=\"{}\">decided, confidence 0 to 1</text>\n", x + 14 * kShades + 8,
        y + 11);
  }

  const Trace& trace_;
  const TraceSlot& slot_;
  size_t positions_, per_column_ = 1, columns_ = 1;
  std::vector<size_t> rows_; // indices of the steps drawn
  int cell_x_ = 0, cell_y_ = 0, width_ = 0, bottom_ = 0, under_ = 0, height_ = 0;
  bool words_ = false;
  std::vector<std::string> texts_; // the final ones, with words_
  std::string out_;
};

} // namespace

std::string heat_map_svg(const Trace& trace, const TraceSlot& slot) {
  return HeatMap(trace, slot).draw();
}

std::string xml_text(const std::string& text) {
  std::string safe;
  for (char c : visible_text(text)) {
    switch (c) {
    case '<': safe += "&lt;"; break;
    case '>': safe += "&gt;"; break;
    case '&': safe += "&amp;"; break;
    case '"': safe += "&quot;"; break;
    default: safe += c;
    }
  }
  return safe;
}

} // namespace dllm::cli
