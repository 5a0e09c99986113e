#include "eval.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace dllm::cli {
namespace {

constexpr int kFormat = 2; // of a file of results: 2 has a line for each row of a text

std::string dumped(const EvalJson& value) {
  return value.dump(-1, ' ', false, EvalJson::error_handler_t::replace);
}

// Fails when the settings differ. name: the path of the two objects, which ends with a dot; "" for
// the settings.
void check_same(const EvalJson& there, const EvalJson& here, const std::string& path,
                const std::string& name = "") {
  EvalJson keys = there;
  keys.update(here);
  for (const auto& [key, either] : keys.items()) {
    const EvalJson was = there.value(key, EvalJson()), value = here.value(key, EvalJson());
    if (was == value) continue;
    if (was.is_object() && value.is_object()) check_same(was, value, path, name + key + ".");
    throw Failure(DLLM_FAILED_PRECONDITION,
                  path + " holds results of another evaluation: " + name + key + " is " +
                      dumped(was) + ", here " + dumped(value),
                  "choose another --out, or remove the file");
  }
}

EvalJson header(const EvalJson& settings) {
  return {{"settings", settings}, {"format", kFormat}};
}

EvalJson without(EvalJson object, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) object.erase(key);
  return object;
}

std::string time_text(double seconds) {
  char text[40];
  if (seconds < 90)
    std::snprintf(text, sizeof text, "%.0f s", seconds);
  else if (seconds < 5400)
    std::snprintf(text, sizeof text, "%.0f min", seconds / 60);
  else
    std::snprintf(text, sizeof text, "%.1f h", seconds / 3600);
  return text;
}

} // namespace

EvalResults::EvalResults(std::string path, EvalJson settings, int64_t total, bool quiet,
                         std::vector<std::string> judging)
    : path_(std::move(path)), lock_(path_), settings_(std::move(settings)),
      judging_(std::move(judging)), total_(total), status_(quiet) {
  if (path_.empty()) return;
  if (std::filesystem::exists(path_)) read();
  if (found_.empty() && unjudged_.empty()) {
    std::ofstream(path_, std::ios::trunc).close();
    append(header(settings_));
  }
}

// Reads the results. A last line without a line break comes from an interrupted call; its result is
// computed again.
void EvalResults::read() {
  const std::string text = read_all(path_);
  size_t whole = 0;
  bool same_judge = true;
  EvalJson there;
  int format = kFormat;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', whole)) {
    const EvalJson line = EvalJson::parse(text.substr(whole, end - whole), nullptr, false);
    if (whole == 0) {
      if (!line.is_object() || !line.contains("settings"))
        throw Failure(DLLM_ALREADY_EXISTS, path_ + " is not a file of results",
                      "choose another --out");
      format = line.value("format", 1);
      there = line["settings"];
      for (const std::string& key : judging_)
        same_judge &= there.value(key, EvalJson()) == settings_.value(key, EvalJson());
    } else {
      if (!line.is_object() || !line.contains("id"))
        throw Failure(DLLM_DATA_LOSS, path_ + ": line " +
                                          std::to_string(found_.size() + unjudged_.size() + 2) +
                                          " is not a result");
      const bool keeps = judging_.empty() || (same_judge && line.contains("passed"));
      (keeps ? found_ : unjudged_)[line["id"].get<std::string>()] = line;
    }
    whole = end + 1;
  }
  if (whole == 0 && !text.empty())
    throw Failure(DLLM_ALREADY_EXISTS, path_ + " is not a file of results", "choose another --out");
  const bool has_results = !found_.empty() || !unjudged_.empty();
  if (has_results) { // a file without results is begun again
    if (format != kFormat)
      throw Failure(DLLM_FAILED_PRECONDITION, path_ + " is of another version of dllm",
                    "choose another --out, or remove the file");
    check_same(without(there, judging_), without(settings_, judging_), path_);
  }
  std::filesystem::resize_file(path_, has_results ? whole : 0);
}

void EvalResults::append(const EvalJson& line) {
  std::ofstream file(path_, std::ios::binary | std::ios::app);
  file << dumped(line) << "\n";
  file.close();
  if (!file) throw Failure(DLLM_RESOURCE_EXHAUSTED, "cannot write to " + path_);
}

bool EvalResults::take(const std::string& id) {
  const auto found = found_.find(id);
  if (found == found_.end()) return false;
  lines_.push_back(std::move(found->second));
  found_.erase(found);
  ++resumed_;
  return true;
}

std::optional<std::string> EvalResults::unjudged(const std::string& id) const {
  const auto found = unjudged_.find(id);
  if (found == unjudged_.end()) return std::nullopt;
  const EvalJson completion = found->second.value("completion", EvalJson());
  if (!completion.is_string())
    throw Failure(DLLM_DATA_LOSS, path_ + ": the result of " + id + " has no completion",
                  "choose another --out, or remove the file");
  return completion.get<std::string>();
}

void EvalResults::add_judged(const std::vector<EvalJson>& lines) {
  std::string text = dumped(header(settings_)) + "\n";
  for (const EvalJson& line : lines) {
    unjudged_.erase(line["id"].get<std::string>());
    lines_.push_back(line);
  }
  resumed_ += static_cast<int64_t>(lines.size());
  for (const EvalJson& line : lines_) text += dumped(line) + "\n";
  for (const auto& [id, line] : found_) text += dumped(line) + "\n";
  // Rows beyond the limit keep their completions for a later call.
  for (const auto& [id, line] : unjudged_)
    text += dumped(without(line, {"passed", "result", "error"})) + "\n";
  write_all(path_, text);
}

void EvalResults::add(const EvalJson& line) {
  lines_.push_back(line);
  if (!path_.empty()) append(line);
  show_progress();
}

void EvalResults::show_progress() {
  const auto done = static_cast<int64_t>(lines_.size());
  const double passed =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  std::ostringstream text;
  text << done;
  if (total_ > 0) text << " of " << total_;
  if (total_ > 0 && done > resumed_) {
    const double each = passed / static_cast<double>(done - resumed_);
    text << ", " << time_text(each * static_cast<double>(total_ - done)) << " left";
  }
  status_.show(text.str());
}

} // namespace dllm::cli
