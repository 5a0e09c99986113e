#pragma once
// Pictures of a training run, without a model: what it recorded, charts of it, and one HTML page of all.
//
// A run's folder has metrics.jsonl (events of dllm_trainer_run, a line each) and examples.jsonl (dllm train: a line at each
// held-out loss: {"step", "share", "loss", "right": one number a row, "strips": [{"texts", "guesses", "states"}], "sample"}).

#include <cstdint>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::cli {

// ---- what a run recorded (run_record.cpp) ----

// Some consecutive points of a curve.
struct Bucket {
  int64_t step = 0; // the last one
  double mean = 0, least = 0, most = 0;
  int64_t count = 0;
};

// Numbers by step. A long curve is kept as means of equally many points, so memory has a limit.
class Curve {
public:
  // A step that was there before replaces it and those after it: training went back.
  void add(int64_t step, double value);
  const std::vector<Bucket>& points() const { return points_; }
  bool empty() const { return points_.empty(); }
  // At most `most` points.
  std::vector<Bucket> thinned(size_t most) const;

private:
  std::vector<Bucket> points_;
  int64_t per_bucket_ = 1;
};

struct StripToken {
  std::string text, guess;
  int state = 0; // 0 given, 1 wrong, 2 right
};

struct Examples {
  int64_t step = 0;
  std::vector<double> share, loss, right; // one number a row
  std::vector<std::vector<StripToken>> strips;
  std::string sample, no_predictions, no_sample; // no_...: why there are none
  bool has_sample = false;
};

struct RunRecord {
  std::string name, objective;               // "": not recorded
  int64_t layers = 0, hidden = 0, vocab = 0; // of run.json; 0: not recorded
  Curve loss, held_out, bits_per_byte, gradient, rate, speed;
  int64_t steps = 0, tokens = 0, skipped = 0;
  std::vector<Examples> examples; // by step
  // Lines that are not read: no JSON object (one cut at the end of a file is not counted), too long. Numbers that are not drawn: not finite.
  int64_t bad_lines = 0, bad_numbers = 0;
  bool cut = false; // the last line of a file was not whole
};

// Fills the record from lines of the two files. Never fails: what cannot be read is counted.
void read_metrics(std::istream& lines, RunRecord* record);
void read_examples(std::istream& lines, RunRecord* record);
// A run's folder, or its metrics file. Throws Failure where there is none, or no event in it.
RunRecord read_run(const std::string& path);

inline constexpr size_t kMostLine = size_t{4} << 20; // bytes
inline constexpr size_t kMostExamples = 2000;
inline constexpr double kMostNumber = 1e30; // larger ones are not drawn

// ---- charts (chart.cpp) ----

struct ChartPoint {
  double x, y, low, high; // low = high = y: one number
};

struct ChartSeries {
  std::string name;
  std::string kind; // class of its colour: "a" (blue), "b" (orange), "s0" .. "s4" (light to strong)
  std::vector<ChartPoint> points;
  bool noisy = false; // drawn faint, with a moving mean
  bool marks = false; // a dot for each point
};

struct Chart {
  std::string title, x_label, y_label;
  std::vector<ChartSeries> series;
  int width = 500, height = 270;
  bool share_axis = false; // x from 0 to 1
  bool zero = false;       // y from 0
};

// A whole SVG picture. with_style: with its colours, for a file of its own.
std::string chart_svg(const Chart& chart, bool with_style);
// 1, 0.25, 12.3k, 4e-05.
std::string short_number(double value);

// ---- text as pictures (strips.cpp) ----

// One held-out row: its text with the corrupted tokens marked, below it the predictions of some steps.
std::string strips_svg(const RunRecord& record, size_t row, bool with_style);
std::string samples_svg(const RunRecord& record, bool with_style);
size_t strip_rows(const RunRecord& record);
// First and last, and some between.
std::vector<size_t> some_of(size_t count, size_t most);

// ---- the page (report_page.cpp) ----

struct Picture {
  std::string name; // of its file, without .svg
  std::string svg;  // with its style; "": there is nothing to draw
};
// All pictures of a run, in the order of the page.
std::vector<Picture> report_pictures(const RunRecord& record);
std::string report_html(const RunRecord& record);

extern const std::string_view kReportPage;  // report.html
extern const std::string_view kReportStyle; // colours of the pictures

} // namespace dllm::cli
