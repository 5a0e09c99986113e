#include "report.h"

#include "../command.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>

namespace dllm::cli {
namespace {

namespace fs = std::filesystem;
using RunJson = nlohmann::ordered_json;

constexpr size_t kMostPoints = size_t{1} << 16;
constexpr size_t kMostRows = 256, kMostStrips = 8, kMostStripTokens = 1024;

Bucket joined(const Bucket& a, const Bucket& b) {
  const auto all = static_cast<double>(a.count + b.count);
  const double mean =
      a.mean * (static_cast<double>(a.count) / all) + b.mean * (static_cast<double>(b.count) / all);
  return {b.step, mean, std::min(a.least, b.least), std::max(a.most, b.most), a.count + b.count};
}

std::vector<Bucket> joined_by(const std::vector<Bucket>& points, size_t count) {
  std::vector<Bucket> made;
  for (size_t i = 0; i < points.size(); ++i) {
    if (i % count == 0)
      made.push_back(points[i]);
    else
      made.back() = joined(made.back(), points[i]);
  }
  return made;
}

// One line without its end. too_long: the line has more than kMostLine bytes, which are skipped.
struct Line {
  std::string text;
  bool too_long = false, whole = false;
};

std::optional<Line> next_line(std::istream& lines) {
  std::streambuf* bytes = lines.rdbuf();
  Line line;
  int byte = bytes->sbumpc();
  if (byte == std::char_traits<char>::eof()) return std::nullopt;
  for (; byte != std::char_traits<char>::eof() && byte != '\n'; byte = bytes->sbumpc()) {
    if (line.text.size() < kMostLine)
      line.text += static_cast<char>(byte);
    else
      line.too_long = true;
  }
  line.whole = byte == '\n';
  return line;
}

void each_object(std::istream& lines, RunRecord* record,
                 const std::function<bool(const RunJson&)>& read) {
  while (const std::optional<Line> line = next_line(lines)) {
    if (line->text.find_first_not_of(" \t\r") == std::string::npos) continue;
    const RunJson object = line->too_long ? RunJson() : RunJson::parse(line->text, nullptr, false);
    if (!object.is_object() && !line->whole)
      record->cut = true;
    else if (!object.is_object() || !read(object))
      ++record->bad_lines;
  }
}

std::optional<int64_t> whole_number(const RunJson& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  const bool fits = !found->is_number_unsigned() ||
                    found->get<uint64_t>() <= static_cast<uint64_t>(int64_t{1} << 53);
  if (!fits || found->get<int64_t>() < 0) return std::nullopt;
  return found->get<int64_t>();
}

// Returns a number that can be drawn. Counts null (a loss that is not finite) and huge numbers as
// bad.
std::optional<double> real_number(const RunJson& value, RunRecord* record) {
  const double number =
      value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
  if (std::abs(number) <= kMostNumber) return number;
  ++record->bad_numbers;
  return std::nullopt;
}

void add_number(const RunJson& object, const char* key, int64_t step, Curve* curve,
                RunRecord* record) {
  const auto found = object.find(key);
  if (found == object.end()) return;
  if (const auto number = real_number(*found, record)) curve->add(step, *number);
}

// Adds an array of numbers; null stands for none.
void add_profile(const RunJson& values, int64_t step, std::vector<Profile>* all,
                 RunRecord* record) {
  Profile made;
  made.step = step;
  for (size_t i = 0; i < std::min(values.size(), kMostProfileValues); ++i) {
    const auto number = values[i].is_null() ? std::nullopt : real_number(values[i], record);
    made.values.push_back(number.value_or(std::numeric_limits<double>::quiet_NaN()));
  }
  while (!all->empty() && all->back().step >= step) all->pop_back();
  if (all->size() == kMostProfiles) { // every second one
    for (size_t i = 0; 2 * i + 1 < all->size(); ++i) (*all)[i] = std::move((*all)[2 * i + 1]);
    all->resize(all->size() / 2);
  }
  all->push_back(std::move(made));
}

// Adds the numbers and arrays that only some objectives report. The numbers of every step have
// their own places on the page, or none.
void add_metrics(const RunJson& object, int64_t step, RunRecord* record) {
  constexpr const char* kOfEveryStep[] = {"checkpoint_stall_seconds",
                                          "compiles",
                                          "grad_norm",
                                          "input_wait",
                                          "loss",
                                          "lr",
                                          "memory",
                                          "mfu",
                                          "rank_wait",
                                          "run_seconds",
                                          "skipped",
                                          "step",
                                          "tokens",
                                          "tokens_per_second"};
  for (const auto& [name, value] : object.items()) {
    if (std::ranges::find(kOfEveryStep, name) != std::end(kOfEveryStep)) continue;
    if (name.starts_with("held_out_")) continue; // of the event before this one
    if (value.is_array() && !value.empty()) {
      if (record->profiles.contains(name) || record->profiles.size() < kMostMetrics)
        add_profile(value, step, &record->profiles[name], record);
    } else if (value.is_number() || value.is_null()) {
      if (!record->metrics.contains(name) && record->metrics.size() >= kMostMetrics) continue;
      if (const auto number = real_number(value, record)) record->metrics[name].add(step, *number);
    }
  }
}

bool read_event(const RunJson& object, RunRecord* record) {
  const auto kind = object.find("event");
  if (kind == object.end() || !kind->is_string()) return false;
  if (*kind != "train_step" && *kind != "eval") return true;
  const std::optional<int64_t> step = whole_number(object, "step");
  if (!step) return false;
  if (*kind == "eval") {
    add_number(object, "loss", *step, &record->held_out, record);
    add_number(object, "bits_per_byte", *step, &record->bits_per_byte, record);
    return true;
  }
  record->steps = *step;
  record->tokens = whole_number(object, "tokens").value_or(record->tokens);
  record->skipped = whole_number(object, "skipped").value_or(record->skipped);
  add_number(object, "loss", *step, &record->loss, record);
  add_number(object, "grad_norm", *step, &record->gradient, record);
  add_number(object, "lr", *step, &record->rate, record);
  add_number(object, "tokens_per_second", *step, &record->speed, record);
  add_metrics(object, *step, record);
  return true;
}

// Reads three lists of equal length; returns false when their lengths differ.
bool read_rows(const RunJson& object, RunRecord* record, Examples* made) {
  const auto share = object.find("share"), loss = object.find("loss");
  if (share == object.end() || loss == object.end()) return true; // none were predicted
  const auto right = object.find("right");
  if (!share->is_array() || !loss->is_array() || share->size() != loss->size()) return false;
  const bool has_right =
      right != object.end() && right->is_array() && right->size() == share->size();
  for (size_t i = 0; i < std::min(share->size(), kMostRows); ++i) {
    const auto x = real_number((*share)[i], record), y = real_number((*loss)[i], record);
    if (!x || !y || *x < 0 || *x > 1) continue;
    made->share.push_back(*x);
    made->loss.push_back(*y);
    const auto z = has_right ? real_number((*right)[i], record) : std::nullopt;
    made->right.push_back(z.value_or(0));
  }
  return true;
}

bool read_strip(const RunJson& strip, Examples* made) {
  if (!strip.is_object()) return false;
  for (const char* key : {"texts", "guesses", "states"}) {
    if (!strip.contains(key) || !strip[key].is_array()) return false;
  }
  const RunJson &texts = strip["texts"], &guesses = strip["guesses"], &states = strip["states"];
  if (texts.size() != guesses.size() || texts.size() != states.size()) return false;
  std::vector<StripToken> tokens;
  for (size_t i = 0; i < std::min(texts.size(), kMostStripTokens); ++i) {
    if (!texts[i].is_string() || !guesses[i].is_string() || !states[i].is_number_integer())
      return false;
    const auto state = states[i].get<int64_t>();
    if (state < 0 || state > 2) return false;
    tokens.push_back({texts[i], guesses[i], static_cast<int>(state)});
  }
  made->strips.push_back(std::move(tokens));
  return true;
}

std::string text_of(const RunJson& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

bool read_example(const RunJson& object, RunRecord* record) {
  const std::optional<int64_t> step = whole_number(object, "step");
  if (!step) return false;
  Examples made;
  made.step = *step;
  if (!read_rows(object, record, &made)) return false;
  const auto strips = object.find("strips");
  if (strips != object.end() && !strips->is_array()) return false;
  if (strips != object.end()) {
    for (size_t i = 0; i < std::min(strips->size(), kMostStrips); ++i) {
      if (!read_strip((*strips)[i], &made)) return false;
    }
  }
  made.has_sample = object.contains("sample") && object["sample"].is_string();
  made.sample = text_of(object, "sample");
  made.no_sample = text_of(object, "no_sample");
  made.no_predictions = text_of(object, "no_predictions");
  if (record->objective.empty()) record->objective = text_of(object, "objective");
  std::vector<Examples>& all = record->examples;
  while (!all.empty() && all.back().step >= made.step) all.pop_back();
  if (all.size() == kMostExamples) { // every second one
    for (size_t i = 0; 2 * i + 1 < all.size(); ++i) all[i] = std::move(all[2 * i + 1]);
    all.resize(all.size() / 2);
  }
  all.push_back(std::move(made));
  return true;
}

void add_settings(const RunJson& values, const std::string& prefix, RunSettings* settings) {
  constexpr size_t kMostText = 200;
  if (!values.is_object()) return;
  for (const auto& [key, value] : values.items()) {
    if (value.is_object()) {
      add_settings(value, prefix + key + ".", settings);
      continue;
    }
    const std::string text = value.is_string()
                                 ? value.get<std::string>()
                                 : value.dump(-1, ' ', false, RunJson::error_handler_t::replace);
    (*settings)[prefix + key] = text.substr(0, kMostText);
  }
}

// Adds the settings of run.json. Options that were given are there in addition to the compared
// ones, because the length of a run is not compared.
void read_settings(const RunJson& start, RunSettings* settings) {
  for (const char* name : {"vocab", "layers", "hidden", "from", "tokenizer", "objective"}) {
    if (start.contains(name) && !start[name].is_structured())
      add_settings({{name, start[name]}}, "", settings);
  }
  if (start.contains("model")) add_settings(start["model"], "model.", settings);
  if (start.contains("settings")) add_settings(start["settings"], "", settings);
  const RunJson::json_pointer options("/given/options");
  if (start.contains(options)) add_settings(start.at(options), "", settings);
}

void read_start(const fs::path& file, RunRecord* record) {
  std::ifstream bytes(file, std::ios::binary);
  const RunJson start = RunJson::parse(bytes, nullptr, false);
  if (!start.is_object()) return;
  if (const std::string name = text_of(start, "objective"); !name.empty()) record->objective = name;
  read_settings(start, &record->settings);
  record->layers = whole_number(start, "layers").value_or(0);
  record->hidden = whole_number(start, "hidden").value_or(0);
  record->vocab = whole_number(start, "vocab").value_or(0);
}

std::vector<std::string> names_in(const RunJson& part, const char* key) {
  std::vector<std::string> names;
  const auto found = part.find(key);
  if (found == part.end() || !found->is_array()) return names;
  for (const RunJson& row : *found) {
    if (names.size() == kMostParts) break;
    names.push_back(row.is_string() ? row.get<std::string>() : text_of(row, "name"));
  }
  return names;
}

ModelPart part_of(const RunJson& row) {
  ModelPart part;
  part.name = text_of(row, "name");
  part.family = text_of(row, row.contains("family") ? "family" : "kind");
  part.layers = whole_number(row, "layers").value_or(0);
  part.hidden = whole_number(row, "hidden").value_or(0);
  part.latents = whole_number(row, "latents").value_or(0);
  part.parameters = static_cast<double>(whole_number(row, "parameters").value_or(0));
  part.has_trained = row.contains("trained");
  part.is_trained = part.has_trained && row["trained"] == true;
  part.is_reference = text_of(row, "stored") == "reference";
  part.reads = names_in(row, "reads");
  part.inputs = names_in(row, "inputs");
  part.heads = names_in(row, "heads");
  return part;
}

} // namespace

void read_parts(const std::string& description, RunRecord* record) {
  const RunJson about = RunJson::parse(description, nullptr, false);
  if (!about.is_object()) return;
  // run.json has the sizes of a new model, and a run with --from has those of another one.
  if (about.contains("model")) {
    const RunJson& model = about["model"];
    record->layers = whole_number(model, "layers").value_or(record->layers);
    record->hidden = whole_number(model, "hidden").value_or(record->hidden);
    record->vocab = whole_number(model, "vocab").value_or(record->vocab);
  }
  if (!about.contains("parts") || !about["parts"].is_array()) return;
  record->parts.clear();
  for (const RunJson& row : about["parts"]) {
    if (row.is_object() && record->parts.size() < kMostParts) record->parts.push_back(part_of(row));
  }
}

void Curve::add(int64_t step, double value) {
  while (!points_.empty() && points_.back().step >= step) points_.pop_back();
  const Bucket one{step, value, value, value, 1};
  if (!points_.empty() && points_.back().count < per_bucket_) {
    points_.back() = joined(points_.back(), one);
    return;
  }
  if (points_.size() == kMostPoints) {
    points_ = joined_by(points_, 2);
    per_bucket_ *= 2;
  }
  points_.push_back(one);
}

std::vector<Bucket> Curve::thinned(size_t most) const {
  return joined_by(points_, std::max<size_t>((points_.size() + most - 1) / most, 1));
}

void read_metrics(std::istream& lines, RunRecord* record) {
  each_object(lines, record, [&](const RunJson& object) { return read_event(object, record); });
}

void read_examples(std::istream& lines, RunRecord* record) {
  each_object(lines, record, [&](const RunJson& object) { return read_example(object, record); });
}

RunRecord read_run(const std::string& path) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  const fs::path folder = is_folder ? fs::path(path) : fs::path(path).parent_path();
  const fs::path file = is_folder ? folder / "metrics.jsonl" : fs::path(path);
  std::ifstream metrics(file, std::ios::binary);
  if (!metrics || fs::is_directory(file, ignored)) {
    throw Failure(DLLM_NOT_FOUND, "there is no file " + file.string(),
                  "give the folder that dllm train --out names, or a file of metrics");
  }
  RunRecord record;
  record.name = path;
  read_metrics(metrics, &record);
  if (record.loss.empty() && record.held_out.empty()) {
    throw Failure(DLLM_INVALID_ARGUMENT, file.string() + " holds no loss of a step",
                  "metrics are lines of JSON that dllm train or the sink jsonl writes");
  }
  std::ifstream examples(folder / "examples.jsonl", std::ios::binary);
  if (examples) read_examples(examples, &record);
  read_start(folder / "run.json", &record);
  return record;
}

} // namespace dllm::cli
