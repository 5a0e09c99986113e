#include "pictures.h"
#include "report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace dllm::cli {
namespace {

constexpr int kLeftRoom = 64, kRightRoom = 18, kTopRoom = 58, kBottomRoom = 46;
constexpr double kLogFrom = 30; // largest over smallest number, from which the axis is logarithmic
constexpr size_t kMostHits = 150; // places that show their numbers under the pointer
constexpr double kMeanKept = 0.9; // of the moving mean: about 10 points

// Converts numbers of one axis to pixels.
class Axis {
public:
  Axis(double from, double to, double pixel_from, double pixel_to, bool logarithmic)
      : logarithmic_(logarithmic), from_(from), to_(to), pixel_from_(pixel_from),
        pixel_to_(pixel_to) {
    if (logarithmic_) {
      from_ = std::log10(from);
      to_ = std::log10(to);
    }
    if (!(to_ > from_)) { // one number: in the middle
      const double room = std::max(std::abs(to_) * 0.1, 1e-12);
      from_ -= room;
      to_ += room;
    }
  }

  double at(double value) const {
    return pixel_from_ + (pixel_to_ - pixel_from_) * ((scaled(value) - from_) / (to_ - from_));
  }
  double scaled(double value) const { return logarithmic_ ? std::log10(value) : value; }
  double unscaled(double place) const { return logarithmic_ ? std::pow(10.0, place) : place; }

  // Returns about `count` round numbers.
  std::vector<double> ticks(double count) const {
    return logarithmic_ && to_ - from_ > 1.2 ? decades(count) : steps(count);
  }

private:
  std::vector<double> decades(double count) const {
    std::vector<double> made;
    const double stride = std::max(1.0, std::ceil((to_ - from_) / count));
    for (double power = std::ceil(from_ - 1e-9); power <= to_ + 1e-9; power += stride)
      made.push_back(std::pow(10.0, power));
    return made;
  }

  std::vector<double> steps(double count) const {
    const double low = unscaled(from_), high = unscaled(to_);
    const double rough = (high - low) / count,
                 power = std::pow(10.0, std::floor(std::log10(rough)));
    const double share = rough / power;
    const double stride = power * (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10);
    std::vector<double> made;
    for (double k = std::ceil(low / stride - 1e-9); k * stride <= high + stride * 1e-9; ++k)
      made.push_back(std::abs(k) < 0.5 ? 0 : k * stride);
    return made;
  }

  bool logarithmic_;
  double from_, to_, pixel_from_, pixel_to_;
};

struct Range {
  double low = 0, high = 0;
  bool any = false;

  void add(double value) {
    low = any ? std::min(low, value) : value;
    high = any ? std::max(high, value) : value;
    any = true;
  }
};

class ChartDrawing {
public:
  ChartDrawing(const Chart& chart, bool with_style)
      : chart_(chart), with_style_(with_style), x_(x_axis(chart)), y_(y_axis(chart)) {}

  std::string draw() {
    put("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {0} {1}\" "
        "width=\"{0}\" height=\"{1}\" role=\"img\">\n<title>{2}</title>\n",
        chart_.width, chart_.height, xml_text(chart_.title));
    if (with_style_) {
      put("<style>{}</style>\n<rect class=\"page\" width=\"{}\" height=\"{}\"/>\n", kReportStyle,
          chart_.width, chart_.height);
    }
    put("<text class=\"title\" x=\"14\" y=\"24\">{}</text>\n", xml_text(chart_.title));
    legend();
    grid();
    for (const ChartSeries& series : chart_.series) curve(series);
    hits();
    out_ += "</svg>\n";
    return std::move(out_);
  }

private:
  static Axis x_axis(const Chart& chart) {
    Range range;
    for (const ChartSeries& series : chart.series) {
      for (const ChartPoint& point : series.points) range.add(point.x);
    }
    if (chart.share_axis) range = {0, 1, true};
    return {range.low, range.high, kLeftRoom, static_cast<double>(chart.width - kRightRoom), false};
  }

  static Axis y_axis(const Chart& chart) {
    Range range;
    for (const ChartSeries& series : chart.series) {
      for (const ChartPoint& point : series.points) {
        range.add(point.low);
        range.add(point.high);
      }
    }
    const bool logarithmic =
        !chart.zero && range.low > 0 && (chart.decades || range.high / range.low > kLogFrom);
    if (chart.zero && range.low > 0) range.low = 0;
    if (!logarithmic) {
      const double room = (range.high - range.low) * 0.04;
      range.high += room;
      if (range.low != 0) range.low -= room;
    }
    return {range.low, range.high, static_cast<double>(chart.height - kBottomRoom), kTopRoom,
            logarithmic};
  }

  template <class... Args> void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void legend() {
    if (chart_.series.size() == 1 && chart_.series[0].name == chart_.title) return;
    int x = 14;
    for (const ChartSeries& series : chart_.series) {
      const int width = 17 + width_of(series.name) * 7;
      if (x > 14 && x + width > chart_.width - kRightRoom) { // the table below names them all
        put("<text class=\"small\" x=\"{}\" y=\"42\">...</text>\n", x);
        return;
      }
      put("<rect class=\"fill-{}\" x=\"{}\" y=\"36\" width=\"12\" height=\"4\" rx=\"2\"/>",
          series.kind, x);
      put("<text class=\"small\" x=\"{}\" y=\"42\">{}</text>\n", x + 17, xml_text(series.name));
      x += width + 16;
    }
  }

  void grid() {
    const int left = kLeftRoom, right = chart_.width - kRightRoom,
              bottom = chart_.height - kBottomRoom;
    for (const double value : y_.ticks(5)) {
      const double y = y_.at(value);
      if (y < kTopRoom - 1 || y > bottom + 1) continue;
      put("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", left, right, y,
          y);
      put("<text class=\"small end\" x=\"{}\" y=\"{:.1f}\">{}</text>\n", left - 7, y + 4,
          short_number(value));
    }
    for (const double value : x_.ticks(chart_.width / 90.0)) {
      const double x = x_.at(value);
      if (x < left - 1 || x > right + 1) continue;
      put("<line class=\"tick\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>", x, bottom,
          bottom + 4);
      put("<text class=\"small middle\" x=\"{:.1f}\" y=\"{}\">{}</text>\n", x, bottom + 18,
          short_number(value));
    }
    put("<line class=\"axis\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>", left, right, bottom,
        bottom);
    put("<text class=\"small middle\" x=\"{}\" y=\"{}\">{}</text>\n", (left + right) / 2,
        bottom + 36, xml_text(chart_.x_label));
    put("<text class=\"small end\" x=\"{}\" y=\"24\">{}</text>\n", right, xml_text(chart_.y_label));
  }

  template <class F>
  void line(const char* form, const std::string& kind, const std::vector<ChartPoint>& points,
            const F& value) {
    put("<polyline class=\"{} line-{}\" points=\"", form, kind);
    for (size_t i = 0; i < points.size(); ++i)
      put("{}{:.2f},{:.2f}", i == 0 ? "" : " ", x_.at(points[i].x), y_.at(value(points[i])));
    out_ += "\"/>\n";
  }

  void bars(const ChartSeries& series) {
    const double width = (chart_.width - kLeftRoom - kRightRoom) /
                         static_cast<double>(std::max<size_t>(series.points.size(), 1));
    for (const ChartPoint& point : series.points) {
      const double y = y_.at(point.y);
      put("<rect class=\"bar fill-{}\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" "
          "height=\"{:.2f}\"/>\n",
          series.kind, x_.at(point.x) - width * 0.45, y, width * 0.9,
          std::max(chart_.height - kBottomRoom - y, 0.0));
    }
  }

  void curve(const ChartSeries& series) {
    if (series.bars) return bars(series);
    const std::vector<ChartPoint>& points = series.points;
    const bool has_band = std::ranges::any_of(points, [](const auto& p) { return p.low < p.high; });
    if (has_band) band(series);
    const bool faint = series.noisy && !has_band && points.size() > 20;
    if (points.size() > 1)
      line(faint ? "faint" : "line", series.kind, points, [](const auto& p) { return p.y; });
    if (faint) {
      double sum = 0, weight = 0;
      line("line mean", series.kind, points, [&](const ChartPoint& point) {
        sum = kMeanKept * sum + y_.scaled(point.y);
        weight = kMeanKept * weight + 1;
        return y_.unscaled(sum / weight);
      });
    }
    if (!series.marks && points.size() > 1) return;
    for (const ChartPoint& point : points) {
      put("<circle class=\"fill-{}\" cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"3\"/>\n", series.kind,
          x_.at(point.x), y_.at(point.y));
    }
  }

  // Draws the band between the least and the largest number of each point.
  void band(const ChartSeries& series) {
    put("<polygon class=\"band fill-{}\" points=\"", series.kind);
    for (const ChartPoint& point : series.points)
      put("{:.2f},{:.2f} ", x_.at(point.x), y_.at(point.high));
    for (auto point = series.points.rbegin(); point != series.points.rend(); ++point)
      put("{:.2f},{:.2f} ", x_.at(point->x), y_.at(point->low));
    out_ += "\"/>\n";
  }

  // Adds the numbers that are shown when the pointer rests on a place.
  void hits() {
    if (chart_.series.empty() || chart_.share_axis) return;
    const std::vector<ChartPoint>& points = chart_.series.front().points;
    const size_t stride = std::max<size_t>((points.size() + kMostHits - 1) / kMostHits, 1);
    const double left = kLeftRoom, right = chart_.width - kRightRoom;
    const double half =
        (right - left) / 2 / static_cast<double>(std::max<size_t>(points.size() / stride, 1));
    for (size_t i = 0; i < points.size(); i += stride) {
      const double from = std::max(x_.at(points[i].x) - half, left),
                   to = std::min(x_.at(points[i].x) + half, right);
      put("<rect class=\"hit\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\"><title>{} "
          "{}: {:.5g}</title></rect>\n",
          from, kTopRoom, to - from, chart_.height - kTopRoom - kBottomRoom,
          xml_text(chart_.x_label), short_number(points[i].x), points[i].y);
    }
  }

  const Chart& chart_;
  bool with_style_;
  Axis x_, y_;
  std::string out_;
};

} // namespace

std::string chart_svg(const Chart& chart, bool with_style) {
  return ChartDrawing(chart, with_style).draw();
}

std::string short_number(double value) {
  const double size = std::abs(value);
  if (size >= 1e15) return fmt::format("{:.2e}", value);
  if (size >= 1e9) return fmt::format("{:.4g}G", value / 1e9);
  if (size >= 1e6) return fmt::format("{:.4g}M", value / 1e6);
  if (size >= 1e4) return fmt::format("{:.4g}k", value / 1e3);
  return fmt::format("{:.4g}", value);
}

} // namespace dllm::cli
