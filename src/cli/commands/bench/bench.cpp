// dllm bench measures how fast this machine computes a model, and compares it with the peak of its
// arithmetic.

#include "../../command.h"
#include "../../options/names.h"
#include "../../processes/process.h"
#include "bench_peak.h"
#include "bench_report.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>

namespace dllm::cli {
namespace {

using BenchClock = std::chrono::steady_clock;
using BenchJson = nlohmann::ordered_json;

constexpr int64_t kLeastRepeats = 5, kMostRepeats = 1000, kUsualSeconds = 8;
constexpr double kPeakSeconds = 0.03; // seconds of one measurement of the peak

// The most repetitions and seconds of a work, which is repeated at least kLeastRepeats times.
struct Budget {
  int64_t repeats = kMostRepeats;
  double seconds = kUsualSeconds;
};

Budget budget_of(const Context& context) {
  Budget budget;
  if (context.has("repeat")) {
    budget.repeats = context.number("repeat");
    budget.seconds = 1e9;
  }
  if (context.has("seconds")) budget.seconds = static_cast<double>(context.number("seconds"));
  if (budget.repeats < kLeastRepeats || budget.repeats > kMostRepeats)
    throw UsageFailure("--repeat takes " + std::to_string(kLeastRepeats) + " to " +
                       std::to_string(kMostRepeats) + ", not " + context.text("repeat"));
  if (budget.seconds < 0)
    throw UsageFailure("--seconds takes 0 and more, not " + context.text("seconds"));
  return budget;
}

std::string repetition_text(const std::string& what, const BenchSeries& series) {
  if (series.samples.empty()) return what + ": first pass";
  char last[32];
  std::snprintf(last, sizeof last, "%.4g s", series.samples.back().seconds);
  return what + ": " + std::to_string(series.samples.size()) + ", last one " + last;
}

// Repeats a work. The first repetition compiles and packs, so it is not counted. Returns false
// after Ctrl-C.
bool measure(BenchWork& work, const PeakLoop* peak, const Budget& budget, BenchSeries& series) {
  StatusLine status;
  try {
    status.show(repetition_text(work.what, series));
    work.repeat();
    const auto begin = BenchClock::now();
    for (int64_t turn = 0; turn < budget.repeats; ++turn) {
      const std::chrono::duration<double> passed = BenchClock::now() - begin;
      if (turn >= kLeastRepeats && passed.count() >= budget.seconds) break;
      const double rate = peak == nullptr ? 0 : peak->measure(kPeakSeconds);
      series.samples.push_back(work.repeat());
      if (peak != nullptr) {
        series.clock_peaks.push_back(peak->measure_at_clock());
        series.peaks.push_back(rate);
      }
      status.show(repetition_text(work.what, series));
    }
  } catch (const Failure& failure) {
    if (failure.status() != DLLM_CANCELLED) throw;
    return false;
  }
  return true;
}

double engine_number(const BenchSubject& subject, const char* key) {
  int64_t value = 0;
  call([&](dllm_error* err) { return dllm_engine_i64(subject.engine.get(), key, &value, err); });
  return static_cast<double>(value);
}

// Returns the line of --json for one work: sizes, figures, and the machine.
BenchJson line_of(const Context& context, const BenchSubject& subject, const BenchWork& work,
                  const BenchSeries& series, const std::string& peak_of) {
  BenchJson line = {{"what", work.what},
                    {"model", subject.model},
                    {"random_weights", subject.random_weights},
                    {"family", subject.about.value("family", "")},
                    {"parameters", subject.about.value("params", 0.0)},
                    {"arithmetic", subject.arithmetic},
                    {"format", context.has("format") ? context.text("format") : "auto"},
                    {"threads", subject.threads},
                    {"simd", subject.simd}};
  line.update(work.sizes);
  line.update(summary_of(series, static_cast<double>(work.rows), work.bytes));
  line["peak_of"] = peak_of;
  line["weight_bytes"] = subject.about.value("bytes", 0.0);
  line["engine_peak_bytes"] = engine_number(subject, "memory_peak");
  line["process_peak_bytes"] = peak_of_process();
  line["chip"] = chip_name();
  line["load"] = load_average();
  return line;
}

void print_lines(const std::vector<BenchJson>& lines, const std::string& peak_of) {
  const BenchJson& first = lines.front();
  std::printf("%s: %s, %.1f M parameters%s; format %s, arithmetic %s\n",
              first.value("model", "").c_str(), first.value("family", "").c_str(),
              first.value("parameters", 0.0) / 1e6,
              first.value("random_weights", false) ? " with random weights" : "",
              first.value("format", "").c_str(), first.value("arithmetic", "").c_str());
  std::printf("%s, %lld threads, %s\n\n%s\n", first.value("chip", "").c_str(),
              static_cast<long long>(first.value("threads", int64_t{0})),
              first.value("simd", "").c_str(), bench_table(lines).c_str());
  const auto has = [&](const char* what) {
    return std::any_of(lines.begin(), lines.end(),
                       [&](const BenchJson& line) { return line.value("what", "") == what; });
  };
  if (has("step")) std::printf("step     one forward pass of all rows, without a cache\n");
  if (has("prefill")) std::printf("prefill  a prompt of this number of rows into an empty cache\n");
  if (has("decode")) std::printf("decode   a step of one block of rows; its context is cached\n");
  if (has("train"))
    std::printf("train    noise, forward pass, gradients and update of one batch\n");
  if (!peak_of.empty())
    std::printf("peak     multiply-adds in registers (%s), measured before each repetition;\n"
                "         at its clock: right after it, before the chip raises its clock again\n",
                peak_of.c_str());
}

std::vector<std::string> works_of(const Context& context) {
  const std::string what = context.text("what");
  std::vector<std::string> names = bench_work_names();
  if (what == "all") return names;
  if (std::find(names.begin(), names.end(), what) != names.end()) return {what};
  if (std::filesystem::exists(what)) {
    throw UsageFailure("the first word of dllm bench is the work, and \"" + what +
                           "\" is a file or folder",
                       "dllm bench decode --model " + what);
  }
  names.emplace_back("all");
  throw UsageFailure(no_such("work", what, names), "there are " + listed(names));
}

int bench(Context& context) {
  const std::vector<std::string> works = works_of(context);
  const Budget budget = budget_of(context);
  check_sizes(context, context.text("what"));
  BenchSubject subject = open_subject(context);
  std::unique_ptr<PeakLoop> peak;
  if (subject.is_cpu) peak = std::make_unique<PeakLoop>(subject.arithmetic, subject.threads);
  const std::string peak_of = peak == nullptr ? "" : peak->name();
  std::vector<BenchJson> lines;
  bool finished = true;
  for (const std::string& what : works) {
    BenchWork work = make_work(context, subject, what);
    BenchSeries series;
    finished = measure(work, peak.get(), budget, series);
    if (!series.samples.empty()) lines.push_back(line_of(context, subject, work, series, peak_of));
    if (!finished) break;
  }
  if (lines.empty()) throw Failure(DLLM_CANCELLED, "interrupted before the first repetition");
  lines.back()["interrupted"] = !finished;
  if (!context.json())
    print_lines(lines, peak_of);
  else
    std::printf("%s\n", (works.size() == 1 ? lines[0] : BenchJson{{"works", lines}})
                            .dump(-1, ' ', false, BenchJson::error_handler_t::replace)
                            .c_str());
  return finished ? 0 : interrupted_code();
}

std::string presets_sentence() {
  std::string sentence = "a known shape with random weights:";
  for (const BenchPreset& preset : bench_presets())
    sentence += " " + preset.name + " (" + preset.sentence + ")";
  return sentence;
}

} // namespace

Command bench_command() {
  using Kind = Argument::Kind;
  return {
      "bench",
      "measure steps, decoding and training on this machine",
      "dllm bench step --preset 0.5b --rows 256\n"
      "  dllm bench measures all four works with the shape of a small model; dllm bench decode "
      "--model M --context 1024 one of them with your model.",
      {{Kind::text, "what", "all",
        "step (a forward pass), prefill (a prompt into the cache), decode (a step of a block after "
        "cached positions), train (a training step), all"},
       {Kind::text, "model", "",
        "a model folder, a GGUF file, a checkpoint or a run; a config.json without weights gets "
        "random weights"},
       {Kind::text, "preset", "135m", presets_sentence()},
       {Kind::number, "rows", "", "positions of a step or a prompt [256], of a block [32]"},
       {Kind::number, "context", "", "decode: positions in the cache [224]"},
       {Kind::number, "batch", "", "train: rows of a batch [4]"},
       {Kind::number, "length", "", "train: tokens of a row [64]"},
       {Kind::text, "logits", "all", "step: all rows through the head, or none"},
       {Kind::text, "arithmetic", "",
        "arithmetic of matrix products, the engine's option of this name: f32 bf16 int8"},
       {Kind::text, "format", "",
        "format of the weights, the model's option dtype: f32 bf16 int8 q8_0"},
       {Kind::number, "repeat", "", "repetitions, 5 and more; else as many as --seconds allows"},
       {Kind::number, "seconds", "", "for each work, at least 5 repetitions [8]"}},
      {"engine", "model"},
      bench,
      false,
      {},
      {"what"}};
}

} // namespace dllm::cli
