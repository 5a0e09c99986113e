// This file draws tokens and samples of a run in columns of equal width.

#include "pictures.h"
#include "report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace dllm::cli {
namespace {

constexpr int kWidth = 1016, kLabel = 86; // pixels; of the picture, of the step in front of a line
constexpr double kColumn = 7.3;           // of a character of 12 pixels
constexpr int kColumns = 124;             // characters of a line
constexpr int kRow = 22;                  // pixels
constexpr size_t kMostSteps = 5, kMostSamples = 12;
constexpr int kMostWidth = 16; // characters of a token
constexpr int kGuessWidth = 5; // of a prediction that is longer than its token
constexpr int kMostSampleRows = 4;

// A picture that grows downwards.
class TextPicture {
public:
  explicit TextPicture(std::string title) : title_(std::move(title)) {}

  template <class... Args> void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
  }
  int y() const { return y_; }
  void down(int pixels) { y_ += pixels; }
  void label(const std::string& text) {
    put("<text class=\"small\" x=\"14\" y=\"{}\">{}</text>\n", y_, xml_text(text));
  }

  std::string finish(bool with_style) const {
    std::string all = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {0} {1}\" "
        "width=\"{0}\" height=\"{1}\" role=\"img\">\n<title>{2}</title>\n",
        kWidth, y_, xml_text(title_));
    if (with_style) {
      all += fmt::format("<style>{}</style>\n<rect class=\"page\" width=\"{}\" height=\"{}\"/>\n",
                         kReportStyle, kWidth, y_);
    }
    all += fmt::format("<text class=\"title\" x=\"14\" y=\"24\">{}</text>\n", xml_text(title_));
    return all + body_ + "</svg>\n";
  }

private:
  std::string title_, body_;
  int y_ = 24;
};

std::string shown(const std::string& text) {
  return cut_to(visible_text(text), kMostWidth);
}

// Returns the text of a cell, without spaces at both ends. A token that has only spaces is shown as
// a mark.
std::string cell_text(const std::string& text) {
  std::string made = shown(text);
  if (made.find_first_not_of(' ') == std::string::npos) return made.empty() ? "" : "\u2423";
  const size_t first = made.find_first_not_of(' ');
  return made.substr(first, made.find_last_not_of(' ') + 1 - first);
}

bool begins_word(const std::string& text) {
  return !text.empty() && (text.front() == ' ' || text.front() == '\n');
}

struct Cell {
  double x = 0;
  int columns = 1;
  size_t line = 0;
};

// Returns the cell of each token. It is as wide as the widest text in it, with a gap before each
// word.
std::vector<Cell> places(const std::vector<const std::vector<StripToken>*>& strips) {
  const std::vector<StripToken>& first = *strips.front();
  std::vector<Cell> cells(first.size());
  double column = 0;
  size_t line = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    int widest = std::max(width_of(cell_text(first[i].text)), 1);
    for (const auto* strip : strips)
      widest = std::max(widest, std::min(width_of(cell_text((*strip)[i].guess)), kGuessWidth));
    if (begins_word(first[i].text) && column > 0) column += 1;
    if (column + widest > kColumns) {
      column = 0;
      ++line;
    }
    cells[i] = {kLabel + column * kColumn, widest, line};
    column += widest + 0.3;
  }
  return cells;
}

void cell(TextPicture* picture, const Cell& place, const std::string& text, const char* kind) {
  std::string fitting = cell_text(text);
  if (width_of(fitting) > place.columns) fitting = cut_to(fitting, place.columns - 1) + "\u2026";
  if (*kind != '\0') {
    picture->put(
        "<rect class=\"{}\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"17\" rx=\"3\"/>", kind,
        place.x - 1, picture->y() - 13, place.columns * kColumn + 2);
  }
  picture->put("<text class=\"mono{}\" x=\"{:.1f}\" y=\"{}\">{}</text>\n",
               *kind != '\0' ? fmt::format(" on-{}", kind) : "", place.x, picture->y(),
               xml_text(fitting));
}

void key(TextPicture* picture) {
  picture->down(22);
  int x = 14;
  for (const auto& [kind, name] :
       {std::pair{"hidden", "hidden from the model"}, std::pair{"right", "predicted right"},
        std::pair{"wrong", "predicted wrong"}}) {
    picture->put("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"13\" height=\"13\" rx=\"3\"/>", kind,
                 x, picture->y() - 11);
    picture->put("<text class=\"small\" x=\"{}\" y=\"{}\">{}</text>\n", x + 19, picture->y(), name);
    x += 19 + width_of(name) * 7 + 12;
  }
  picture->put("<text class=\"small\" x=\"{}\" y=\"{}\">plain: given</text>\n", x, picture->y());
}

// Returns the examples that have this strip with the same text.
std::vector<const Examples*> steps_of(const RunRecord& record, size_t row) {
  std::vector<const Examples*> all;
  for (const Examples& one : record.examples) {
    if (row < one.strips.size() && !one.strips[row].empty()) all.push_back(&one);
  }
  const auto same = [&](const Examples* one) {
    return std::ranges::equal(one->strips[row], all.back()->strips[row],
                              [](const StripToken& a, const StripToken& b) {
                                return a.text == b.text && (a.state == 0) == (b.state == 0);
                              });
  };
  std::vector<const Examples*> kept;
  for (const Examples* one : all) {
    if (same(one)) kept.push_back(one);
  }
  std::vector<const Examples*> some;
  for (const size_t i : some_of(kept.size(), kMostSteps)) some.push_back(kept[i]);
  return some;
}

// Wraps a text to lines of at most `columns` columns, between words where possible.
std::vector<std::string> wrapped(const std::string& text, int columns) {
  std::vector<std::string> lines(1);
  std::string word;
  const auto add = [&] {
    while (!word.empty()) {
      if (width_of(lines.back()) + width_of(word) <= columns) {
        lines.back() += word;
        return word.clear();
      }
      if (!lines.back().empty()) lines.emplace_back();
      const std::string part = cut_to(word, columns);
      if (part.empty()) return word.clear();
      if (part.size() == word.size()) continue;
      lines.back() = part;
      word.erase(0, part.size());
    }
  };
  for (const char byte : text) {
    if (byte == ' ') add();
    word += byte;
  }
  add();
  return lines;
}

} // namespace

std::vector<size_t> some_of(size_t count, size_t most) {
  std::vector<size_t> made;
  if (count == 0 || most == 0) return made;
  const size_t n = std::min(count, most);
  for (size_t i = 0; i < n; ++i) made.push_back(n == 1 ? count - 1 : i * (count - 1) / (n - 1));
  return made;
}

size_t strip_rows(const RunRecord& record) {
  size_t rows = 0;
  for (const Examples& one : record.examples) rows = std::max(rows, one.strips.size());
  return rows;
}

std::string strips_svg(const RunRecord& record, size_t row, bool with_style) {
  const std::vector<const Examples*> steps = steps_of(record, row);
  if (steps.empty()) return {};
  std::vector<const std::vector<StripToken>*> strips;
  for (const Examples* one : steps) strips.push_back(&one->strips[row]);
  const std::vector<StripToken>& text = *strips.front();
  const std::vector<Cell> cells = places(strips);
  int64_t hidden = 0;
  for (const StripToken& token : text) hidden += token.state != 0 ? 1 : 0;
  TextPicture picture(fmt::format("Predictions, held-out row {}: {} of {} tokens hidden", row + 1,
                                  hidden, text.size()));
  key(&picture);
  const size_t lines = cells.back().line + 1;
  for (size_t line = 0; line < lines; ++line) {
    picture.down(line == 0 ? kRow + 8 : kRow + 10);
    picture.label("text");
    for (size_t i = 0; i < text.size(); ++i) {
      if (cells[i].line == line)
        cell(&picture, cells[i], text[i].text, text[i].state == 0 ? "" : "hidden");
    }
    for (size_t s = 0; s < steps.size(); ++s) {
      picture.down(kRow);
      picture.label("step " + short_number(static_cast<double>(steps[s]->step)));
      for (size_t i = 0; i < text.size(); ++i) {
        const StripToken& token = (*strips[s])[i];
        if (cells[i].line == line && token.state != 0)
          cell(&picture, cells[i], token.guess, token.state == 2 ? "right" : "wrong");
      }
    }
  }
  picture.down(18);
  return picture.finish(with_style);
}

std::string samples_svg(const RunRecord& record, bool with_style) {
  std::vector<const Examples*> all;
  for (const Examples& one : record.examples) {
    if (one.has_sample) all.push_back(&one);
  }
  if (all.empty()) return {};
  TextPicture picture("Samples over time");
  picture.down(8);
  for (const size_t i : some_of(all.size(), kMostSamples)) {
    std::vector<std::string> lines = wrapped(visible_text(all[i]->sample), kColumns - 2);
    if (lines.size() > kMostSampleRows) {
      lines.resize(kMostSampleRows);
      lines.back() += "\u2026";
    }
    picture.down(8);
    for (size_t k = 0; k < lines.size(); ++k) {
      picture.down(19);
      if (k == 0) picture.label("step " + short_number(static_cast<double>(all[i]->step)));
      picture.put("<text class=\"mono\" x=\"{}\" y=\"{}\">{}</text>\n", kLabel, picture.y(),
                  xml_text(lines[k]));
    }
  }
  picture.down(18);
  return picture.finish(with_style);
}

} // namespace dllm::cli
