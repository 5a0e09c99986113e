#pragma once
// These functions read the record of a training run and draw charts and one HTML page of it,
// without a model.
//
// A run's folder has two files of JSON lines:
//   metrics.jsonl   events of dllm_trainer_run
//   examples.jsonl  {"step", "share", "loss", "right", "strips": [{"texts", "guesses", "states"}],
//                   "sample"}, which dllm train writes at each held-out loss; share, loss and right
//                   have one number per row

#include <cstdint>
#include <istream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::cli {

// ---- the record of a run (run_record.cpp) ----

// Some consecutive points of a curve.
struct Bucket {
  int64_t step = 0; // step of the last point
  double mean = 0, least = 0, most = 0;
  int64_t count = 0;
};

// Numbers by step. The memory of a curve is limited, so a long curve stores means of equally many
// points.
class Curve {
public:
  // Adds a point. It replaces points at the same and at later steps, because training went back.
  void add(int64_t step, double value);
  const std::vector<Bucket>& points() const { return points_; }
  bool empty() const { return points_.empty(); }
  // Returns at most `most` points, each a mean of consecutive points.
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
  std::vector<double> share, loss, right; // one number per row
  std::vector<std::vector<StripToken>> strips;
  std::string sample, no_predictions, no_sample; // no_...: reason for their absence
  bool has_sample = false;
};

// An array of numbers over [0, 1] at a step. NaN: there is no number.
struct Profile {
  int64_t step = 0;
  std::vector<double> values;
};

// A part of a model.
struct ModelPart {
  std::string name, family;                    // family: the kind, for a part other than a network
  int64_t layers = 0, hidden = 0, latents = 0; // 0: not known
  double parameters = 0;                       // 0: not known
  bool has_trained = false, is_trained = false;
  bool is_reference = false;              // read from another place than the run
  std::vector<std::string> reads;         // names of parts
  std::vector<std::string> inputs, heads; // of a tower
};

// What a run was started with, by name: "trainer.lr" and "0.001".
using RunSettings = std::map<std::string, std::string>;

struct RunRecord {
  std::string name, objective;               // "": not recorded
  std::string remark;                        // "continued from step 200", from a sweep; "": none
  int64_t layers = 0, hidden = 0, vocab = 0; // from run.json; 0: not recorded
  RunSettings settings;                      // from run.json
  Curve loss, held_out, bits_per_byte, gradient, rate, speed;
  // Other numbers of the steps, and arrays of the steps, by name.
  std::map<std::string, Curve> metrics;
  std::map<std::string, std::vector<Profile>> profiles; // each by step
  std::vector<ModelPart> parts;                         // fewer than two are not drawn
  int64_t steps = 0, tokens = 0, skipped = 0;
  std::vector<Examples> examples; // by step
  // Lines that are not JSON objects or are too long; an incomplete last line is not counted.
  // Numbers that are not drawn, because they are not finite or above kMostNumber.
  int64_t bad_lines = 0, bad_numbers = 0;
  bool cut = false; // the last line of a file is incomplete
};

// These functions fill the record from the lines of a file. They never fail; they count lines and
// numbers that cannot be read.
void read_metrics(std::istream& lines, RunRecord* record);
void read_examples(std::istream& lines, RunRecord* record);
// Reads the parts and the sizes of a model in its description (dllm_checkpoint_describe). It never
// fails.
void read_parts(const std::string& description, RunRecord* record);
// Reads a run's folder, or its metrics file. Throws Failure when there is no file or no event.
RunRecord read_run(const std::string& path);

inline constexpr size_t kMostLine = size_t{4} << 20; // most bytes of a line
inline constexpr size_t kMostExamples = 2000;
inline constexpr size_t kMostMetrics = 64, kMostProfiles = 500, kMostProfileValues = 4096;
inline constexpr size_t kMostParts = 64;
inline constexpr double kMostNumber = 1e30; // largest absolute value that is drawn

// ---- charts (chart.cpp) ----

struct ChartPoint {
  double x, y, low, high; // low = high = y for a single number
};

struct ChartSeries {
  std::string name;
  // Class of its colour: "a" (blue), "b" (orange), "s0" .. "s4" (light to strong), "r0" .. "r7" for
  // runs.
  std::string kind;
  std::vector<ChartPoint> points;
  bool noisy = false; // drawn faintly, with a moving mean
  bool marks = false; // a dot is drawn for each point
  bool bars = false;  // a bar is drawn for each point, over equally wide parts of the x axis
};

struct Chart {
  std::string title, x_label, y_label;
  std::vector<ChartSeries> series;
  int width = 500, height = 270;
  bool share_axis = false; // the x axis goes from 0 to 1
  bool zero = false;       // the y axis begins at 0
  bool decades = false;    // the y axis is logarithmic if all numbers are above 0
};

// Returns a complete SVG picture. with_style: with its colours, as a separate file needs them.
std::string chart_svg(const Chart& chart, bool with_style);
// Returns texts like 1, 0.25, 12.3k, 4e-05.
std::string short_number(double value);

// ---- text as pictures (strips.cpp) ----

// Draws one held-out row: its text with the corrupted tokens marked, and below it the predictions
// at some steps.
std::string strips_svg(const RunRecord& record, size_t row, bool with_style);
std::string samples_svg(const RunRecord& record, bool with_style);
size_t strip_rows(const RunRecord& record);
// Returns at most `most` of the indices 0..count-1, with the first and the last.
std::vector<size_t> some_of(size_t count, size_t most);

// ---- the parts of the model (tower.cpp) ----

// Draws the parts from the bottom to the top, each above those that it reads. "": fewer than two.
std::string tower_svg(const RunRecord& record, bool with_style);

// ---- the page (report_page.cpp) ----

struct Picture {
  std::string name; // name of the file, without .svg
  std::string svg;  // the picture with its style; "": it has no data
};
// Returns all pictures of a run in the order of the page.
std::vector<Picture> report_pictures(const RunRecord& record);
std::string report_html(const RunRecord& record);
std::string report_body(const RunRecord& record); // the content of the page

// ---- the page of several runs (compare_page.cpp) ----

std::vector<Picture> compare_pictures(const std::vector<RunRecord>& runs);
// The note below a table that has a run with the remark "continued from step 200".
inline constexpr const char* kContinuedNote =
    "A continued run had the learning rates of its earlier limits up to that step. Compare it with "
    "care with a run of one start.";
// Returns one page with the curves of all runs, their last numbers, and the settings that differ.
std::string compare_html(const std::vector<RunRecord>& runs);
// Returns the content of the page.
std::string compare_body(const std::vector<RunRecord>& runs);

// ---- the page that shows the newest content (report_section.cpp) ----

// Returns a page that gets its content from /body with the script /live.js.
std::string live_page(const std::string& name);
std::string note_html(const std::string& text);

extern const std::string_view kReportPage;  // content of report.html
extern const std::string_view kReportStyle; // colours of the pictures
extern const std::string_view kLiveScript;  // content of live.js

} // namespace dllm::cli
