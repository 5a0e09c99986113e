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

EvalResults::EvalResults(std::string path, const EvalJson& settings, int64_t total, bool quiet)
    : path_(std::move(path)), total_(total), status_(quiet) {
  if (path_.empty()) return;
  if (std::filesystem::exists(path_)) read(settings);
  if (found_.empty()) {
    std::ofstream(path_, std::ios::trunc).close();
    append({{"settings", settings}, {"format", kFormat}});
  }
}

// Reads the results. A last line without a line break comes from an interrupted call; its result is
// computed again.
void EvalResults::read(const EvalJson& settings) {
  const std::string text = read_all(path_);
  size_t whole = 0;
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
    } else {
      if (!line.is_object() || !line.contains("id"))
        throw Failure(DLLM_DATA_LOSS,
                      path_ + ": line " + std::to_string(found_.size() + 2) + " is not a result");
      found_[line["id"].get<std::string>()] = line;
    }
    whole = end + 1;
  }
  if (whole == 0 && !text.empty())
    throw Failure(DLLM_ALREADY_EXISTS, path_ + " is not a file of results", "choose another --out");
  if (!found_.empty()) { // a file without results is begun again
    if (format != kFormat)
      throw Failure(DLLM_FAILED_PRECONDITION, path_ + " is of another version of dllm",
                    "choose another --out, or remove the file");
    check_same(there, settings, path_);
  }
  std::filesystem::resize_file(path_, found_.empty() ? 0 : whole);
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
