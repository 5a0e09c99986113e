#include "pictures.h"
#include "report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace dllm::cli {
namespace {

constexpr int kWidth = 1016, kTitleRoom = 62;
constexpr int kBoxWidth = 222, kBoxHeight = 96, kBoxGap = 26, kRowGap = 46;
constexpr size_t kMostInRow = 4;
constexpr int64_t kMostSlabs = 12; // of layers that are drawn
constexpr double kBarWidth = kBoxWidth - 50;

class TowerDrawing {
public:
  TowerDrawing(const RunRecord& record, bool with_style)
      : parts_(record.parts), with_style_(with_style) {
    for (const ModelPart& part : parts_) largest_ = std::max(largest_, part.parameters);
    place();
  }

  std::string draw() {
    put("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {0} {1}\" "
        "width=\"{0}\" height=\"{1}\" role=\"img\">\n<title>Parts of the model</title>\n",
        kWidth, height_);
    if (with_style_) {
      put("<style>{}</style>\n<rect class=\"page\" width=\"{}\" height=\"{}\"/>\n", kReportStyle,
          kWidth, height_);
    }
    put("<text class=\"title\" x=\"14\" y=\"24\">Parts of the model</text>\n");
    legend();
    for (size_t to = 0; to < parts_.size(); ++to) {
      for (const std::string& name : parts_[to].reads) {
        if (const size_t from = index_of(name); from < parts_.size() && from != to) flow(from, to);
      }
    }
    for (size_t i = 0; i < parts_.size(); ++i) box(parts_[i], boxes_[i]);
    out_ += "</svg>\n";
    return std::move(out_);
  }

private:
  struct Box {
    int x = 0, y = 0;
  };

  template <class... Args> void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  size_t index_of(const std::string& name) const {
    const auto found = std::ranges::find(parts_, name, &ModelPart::name);
    return static_cast<size_t>(found - parts_.begin());
  }

  // Returns the number of parts on the longest way from a part that reads none. A circle ends it.
  std::vector<size_t> depths() const {
    std::vector<size_t> made(parts_.size(), 0);
    for (size_t turn = 0; turn < parts_.size(); ++turn) {
      for (size_t to = 0; to < parts_.size(); ++to) {
        for (const std::string& name : parts_[to].reads) {
          const size_t from = index_of(name);
          if (from >= parts_.size() || from == to) continue;
          made[to] = std::min(std::max(made[to], made[from] + 1), parts_.size() - 1);
        }
      }
    }
    return made;
  }

  // Gives each part its box: rows from the bottom to the top, by depth.
  void place() {
    const std::vector<size_t> depth = depths();
    std::vector<std::vector<size_t>> rows;
    for (size_t level = 0; level < parts_.size(); ++level) {
      bool is_new = true;
      for (size_t i = 0; i < parts_.size(); ++i) {
        if (depth[i] != level) continue;
        if (is_new || rows.back().size() == kMostInRow) rows.emplace_back();
        is_new = false;
        rows.back().push_back(i);
      }
    }
    height_ = kTitleRoom + static_cast<int>(rows.size()) * (kBoxHeight + kRowGap) - kRowGap + 20;
    boxes_.resize(parts_.size());
    for (size_t row = 0; row < rows.size(); ++row) {
      const auto count = static_cast<int>(rows[row].size());
      int x = (kWidth - count * kBoxWidth - (count - 1) * kBoxGap) / 2;
      for (const size_t i : rows[row]) {
        boxes_[i] = {x, height_ - 20 - kBoxHeight - static_cast<int>(row) * (kBoxHeight + kRowGap)};
        x += kBoxWidth + kBoxGap;
      }
    }
  }

  void legend() {
    int x = 14;
    const auto entry = [&](const char* kind, const char* label, int width) {
      put("<rect class=\"box{}\" x=\"{}\" y=\"33\" width=\"16\" height=\"10\" rx=\"2\"/>"
          "<text class=\"small\" x=\"{}\" y=\"42\">{}</text>\n",
          kind, x, x + 22, label);
      x += width;
    };
    const auto any = [&](auto holds) { return std::ranges::any_of(parts_, holds); };
    if (any([](const ModelPart& part) { return part.is_trained; }))
      entry(" trained", "trained", 90);
    if (any([](const ModelPart& part) { return !part.is_trained; })) {
      const bool has_facts = any([](const ModelPart& part) { return part.has_trained; });
      entry("", has_facts ? "not trained" : "part", 110);
    }
    if (any([](const ModelPart& part) { return part.is_reference; }))
      entry(" away", "read from another place", 180);
  }

  // Draws an arrow from the upper side of a box to the lower side of another. An arrow over more
  // than one row begins at the side of its box, so that it passes the boxes between.
  void flow(size_t from, size_t to) {
    const double x1 = boxes_[from].x + kBoxWidth / 2.0, y1 = boxes_[from].y,
                 y2 = boxes_[to].y + kBoxHeight + 7;
    double x2 = boxes_[to].x + kBoxWidth / 2.0;
    if (y1 - y2 > kBoxHeight) {
      const double side = x2 >= x1 ? 1 : -1, begin = x1 + side * kBoxWidth / 2,
                   height = y1 + kBoxHeight / 2.0;
      x2 += side * kBoxWidth / 5;
      put("<path class=\"flow\" d=\"M{:.1f},{:.1f} C{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}\"/>",
          begin, height, begin + side * kBoxWidth / 2, height, x2, y2 + kBoxHeight, x2, y2);
    } else {
      const double middle = (y1 + y2) / 2;
      put("<path class=\"flow\" d=\"M{0:.1f},{1:.1f} C{0:.1f},{2:.1f} {3:.1f},{2:.1f} "
          "{3:.1f},{4:.1f}\"/>",
          x1, y1, middle, x2, y2);
    }
    put("<path class=\"head\" d=\"M{0:.1f},{1:.1f} l-5,8 h10 z\"/>\n", x2, y2 - 6);
  }

  void box(const ModelPart& part, const Box& at) {
    put("<g><rect class=\"box{}{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"9\"/>",
        part.is_trained ? " trained" : "", part.is_reference ? " away" : "", at.x, at.y, kBoxWidth,
        kBoxHeight);
    const char* colour = part.is_trained ? "fill-a" : "idle";
    slabs(part, at, colour);
    const int x = at.x + 36;
    const auto line = [&](const char* kind, int y, const std::string& text) {
      put("<text class=\"{}\" x=\"{}\" y=\"{}\">{}</text>", kind, x, at.y + y,
          xml_text(cut_to(visible_text(text), 32)));
    };
    line("name", 22, part.name);
    line("small", 40, kind_of(part));
    line("small", 57, size_of(part));
    line("small", 74, streams_of(part));
    if (part.parameters > 0 && largest_ > 0) {
      put("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"4\" rx=\"2\"/>", colour,
          x, at.y + kBoxHeight - 13, std::max(kBarWidth * part.parameters / largest_, 2.0));
    }
    out_ += "</g>\n";
  }

  // Draws the layers of a part on top of each other.
  void slabs(const ModelPart& part, const Box& at, const char* colour) {
    const int64_t count = std::min(part.layers, kMostSlabs);
    for (int64_t i = 0; i < count; ++i) {
      put("<rect class=\"{}\" x=\"{}\" y=\"{:.1f}\" width=\"14\" height=\"4.6\" rx=\"1.5\"/>",
          colour, at.x + 12, static_cast<double>(at.y + kBoxHeight - 15 - 6 * i));
    }
  }

  static std::string kind_of(const ModelPart& part) {
    std::string text = part.family;
    if (part.layers > 0)
      text +=
          fmt::format(", {} layer{} of {}", part.layers, part.layers == 1 ? "" : "s", part.hidden);
    return text;
  }

  static std::string size_of(const ModelPart& part) {
    return part.parameters > 0 ? short_number(part.parameters) + " parameters" : "";
  }

  // Returns what a tower reads and makes.
  static std::string streams_of(const ModelPart& part) {
    std::string text;
    const auto add = [&](const char* word, const std::vector<std::string>& names) {
      for (size_t i = 0; i < names.size(); ++i)
        text += (i > 0 ? ", " : (text.empty() ? "" : "; ") + std::string(word) + " ") + names[i];
    };
    add("in", part.inputs);
    if (part.latents > 0)
      text += (text.empty() ? "" : "; ") + fmt::format("makes {} vectors", part.latents);
    add("out", part.heads);
    return text;
  }

  const std::vector<ModelPart>& parts_;
  bool with_style_;
  double largest_ = 0;
  int height_ = 0;
  std::vector<Box> boxes_;
  std::string out_;
};

} // namespace

std::string tower_svg(const RunRecord& record, bool with_style) {
  return record.parts.size() < 2 ? "" : TowerDrawing(record, with_style).draw();
}

} // namespace dllm::cli
