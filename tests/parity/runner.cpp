#include "runner.h"

#include "base/error.h"
#include "base/files.h"
#include "cpu/engine.h"
#include "model/model.h"
#include "pjrt/engine.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace dllm::parity {
namespace {

struct Skip {
  std::string why;
  bool missing = false; // an asset is not there
};

Json read_json(const std::string& path) {
  return parse_json(read_text(path), path);
}

} // namespace

// --- Case ---

std::string Case::key(const std::string& name) const {
  const std::string& prefix = has_prefix_ ? prefix_ : name_;
  return prefix.empty() ? name : prefix + "." + name;
}

const Tensor& Case::array(const std::string& name) const {
  return topic_.array(key(name), file_);
}
bool Case::has(const std::string& name) const {
  return topic_.has(key(name), file_);
}
std::vector<std::string> Case::names(const std::string& start) const {
  std::vector<std::string> found;
  const size_t prefix = key("").size();
  for (const std::string& name : topic_.array_names(file_)) {
    if (name.starts_with(key(start))) found.push_back(name.substr(prefix));
  }
  return found;
}
int64_t Case::count(const std::string& start) const {
  return static_cast<int64_t>(names(start).size());
}

void Case::close(Tolerance tolerance, const Tensor& got, const Tensor& want,
                 const std::string& what, const Tensor& rows) {
  ++comparisons_;
  if (got.shape() != want.shape()) {
    check(false,
          fmt::format("{}: shape {}, expected {}", what, got.shape().text(), want.shape().text()));
    return;
  }
  const Worst worst = compare(got, want, tolerance, rows);
  const double ratio =
      worst.error == 0 ? 0 : (worst.limit > 0 ? worst.error / worst.limit : HUGE_VAL);
  if (ratio <= worst_ratio_) return;
  worst_ratio_ = ratio;
  worst_ = worst;
  if (!worst.within && !failed_) note_ = fmt::format("{}, element {}", what, worst.index);
  failed_ = failed_ || !worst.within;
}

void Case::close(Tolerance tolerance, double got, double want, const std::string& what) {
  close(tolerance, Tensor::scalar(got), Tensor::scalar(want), what);
}

void Case::equal(int64_t got, int64_t want, const std::string& what) {
  close({}, static_cast<double>(got), static_cast<double>(want), what);
}

void Case::equal(const std::string& got, const std::string& want, const std::string& what) {
  ++comparisons_;
  if (got != want) check(false, fmt::format("{}: \"{}\", expected \"{}\"", what, got, want));
}

void Case::check(bool holds, const std::string& what) {
  ++comparisons_;
  if (holds || failed_) return;
  failed_ = true;
  note_ = what;
}

void Case::skip(const std::string& why) {
  throw Skip{why};
}

void Case::needs_asset(const std::string& asset, bool there) {
  asset_ = asset;
  if (!there)
    throw Skip{asset + " is not there: run scripts/fetch-assets, or give --assets DIR", true};
}

// --- Report, Session ---

TopicCounts Report::total() const {
  TopicCounts sum;
  for (const auto& [label, counts] : topics) {
    sum.passed += counts.passed;
    sum.failed += counts.failed;
    sum.skipped += counts.skipped;
  }
  return sum;
}

void Report::line(const char* verdict, const std::string& name, const std::string& rest) {
  std::string text = fmt::format("{:<4} {} {}", verdict, name, rest);
  // One case, one line, whatever an error text holds.
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  std::puts(text.c_str());
  std::fflush(stdout);
}

std::shared_ptr<graph::Engine> Session::engine() {
  if (engine_) return engine_;
  const bool plugin = engine_options.str("kind") == "pjrt";
  return engine_ = plugin ? pjrt::make_engine(engine_options) : cpu::make_engine(engine_options);
}

// --- Topic ---

Topic::Topic(Session& session, std::string folder)
    : session_(session), folder_(std::move(folder)), name_(file_name(folder_)),
      label_(join_path(file_name(parent_path(folder_)), name_)),
      cases_(std::make_shared<Json>(read_json(join_path(folder_, "cases.json")))) {
  for (const std::string& name : list_directory(folder_)) {
    if (!name.ends_with(".safetensors")) continue;
    files_.emplace_back(
        name, std::make_unique<ckpt::SafetensorsFile>(map_file(join_path(folder_, name)), name));
  }
}

const Json& Topic::list(const std::string& key) {
  static const Json nothing = Json::array();
  known_.insert(key);
  const auto found = cases_->find(key);
  return found != cases_->end() && found->is_array() ? *found : nothing;
}

Tolerance Topic::tolerance(const Json& entry, Tolerance otherwise) const {
  const auto number = [&](const char* key, double value) {
    if (entry.is_object() && entry.contains(key)) return entry.at(key).get<double>();
    return cases_->value(key, value);
  };
  return {number("atol", otherwise.absolute), number("rtol", otherwise.relative)};
}

bool Topic::has(const std::string& name, const std::string& file) {
  return std::any_of(files_.begin(), files_.end(), [&](const auto& entry) {
    return (file.empty() || entry.first == file) && entry.second->has(name);
  });
}

const Tensor& Topic::array(const std::string& name, const std::string& file) {
  const std::string key = file + ":" + name;
  if (const auto found = arrays_.find(key); found != arrays_.end()) return found->second;
  for (const auto& [own, reader] : files_) {
    if ((!file.empty() && own != file) || !reader->has(name)) continue;
    read_.insert(own + ":" + name);
    return arrays_[key] = reader->tensor(name);
  }
  fail(Code::not_found, "no array {} in {}", name, file.empty() ? label_ : label_ + "/" + file);
}

std::vector<std::string> Topic::array_names(const std::string& file) {
  std::vector<std::string> names;
  for (const auto& [own, reader] : files_) {
    if (!file.empty() && own != file) continue;
    for (const auto& [name, info] : reader->tensors()) names.push_back(name);
  }
  return names;
}

std::string Topic::model_folder(const std::string& name) const {
  std::string above = parent_path(folder_);
  for (int level = 0; level < 4 && !above.empty(); ++level) {
    const std::string path = join_path(join_path(above, "models"), name);
    if (is_directory(path)) return path;
    const std::string next = parent_path(above);
    if (next == above) break;
    above = next;
  }
  return {};
}

std::shared_ptr<model::Model> Topic::model(const std::string& name) {
  if (const auto found = models_.find(name); found != models_.end()) return found->second;
  const std::string path = model_folder(name);
  if (path.empty()) fail(Code::not_found, "no model folder models/{} near {}", name, label_);
  Options options(model::model_schema());
  options.set_str("dtype", "f32");
  return models_[name] = model::load_model(engine(), path, options);
}

std::string Topic::asset(const std::string& name) const {
  if (session_.assets.empty()) return {};
  const std::string path = join_path(session_.assets, name);
  return file_exists(path) ? path : std::string{};
}

void Topic::run(const std::string& name, const std::function<void(Case&)>& body) {
  run(Json{{"name", name}}, body);
}

void Topic::run(const Json& entry, const std::function<void(Case&)>& body) {
  const std::string name = entry.value("name", "unnamed");
  const std::string full = label_ + "/" + name;
  Case current(*this, name);
  if (entry.contains("file") && entry.at("file").is_string())
    current.set_file(entry.at("file").get<std::string>());
  Report& report = session_.report;
  TopicCounts& counts = report.topics[label_];
  const auto count_asset = [&](std::map<std::string, int>& where) {
    if (!current.asset_.empty()) ++where[current.asset_];
  };
  try {
    body(current);
  } catch (const Skip& skipped) {
    ++counts.skipped;
    if (skipped.missing) {
      count_asset(counts.assets);
      count_asset(counts.missing);
    }
    return report.line("skip", full, skipped.why);
  } catch (const Error& error) {
    const bool skip = error.code() == Code::unimplemented;
    ++(skip ? counts.skipped : counts.failed);
    return report.line(skip ? "skip" : "FAIL", full,
                       skip ? error.text() : fmt::format("- - {}", error.text()));
  } catch (const std::exception& error) {
    ++counts.failed;
    return report.line("FAIL", full, fmt::format("- - {}", error.what()));
  }
  current.check(current.comparisons_ > 0, "nothing was compared");
  const std::string numbers =
      fmt::format("{:.3g} {:.3g}", current.worst_.error, current.worst_.limit);
  ++(current.failed_ ? counts.failed : counts.passed);
  if (!current.failed_) count_asset(counts.assets);
  report.line(current.failed_ ? "FAIL" : "ok", full,
              current.failed_ ? numbers + " " + current.note_ : numbers);
}

void Topic::skip(const std::string& name, const std::string& why) {
  ++counts().skipped;
  session_.report.line("skip", label_ + "/" + name, why);
}

void Topic::skip_unknown_lists() {
  for (const auto& [key, value] : cases_->items()) {
    const bool cases = value.is_array() && !value.empty() && value.front().is_object();
    if (cases && !known_.contains(key))
      skip(key, fmt::format("kind {} is not supported yet ({} cases)", key, value.size()));
  }
}

void Topic::count_unread_arrays() {
  TopicCounts& counts = this->counts();
  for (const auto& [file, reader] : files_) {
    for (const auto& [name, info] : reader->tensors()) {
      if (!read_.contains(file + ":" + name)) counts.unread.push_back(name);
    }
  }
}

} // namespace dllm::parity
