#include "decode/trajectory/extract_file.h"

#include "base/error.h"
#include "text/data/trajectory_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dllm::decode {
namespace {

// Returns a row, cut to option length. A row without a prompt gets one of option context.
TrajectoryRow row_of(const text::Dataset& data, int64_t idx, const Options& options) {
  const text::TokenRow row = data.row(idx);
  const auto count = std::min(row.ids.size(), static_cast<size_t>(options.i64("length")));
  TrajectoryRow made{
      idx, {row.ids.begin(), row.ids.begin() + static_cast<std::ptrdiff_t>(count)}, {}};
  made.given.assign(count, 0);
  if (!row.keep.empty()) std::copy_n(row.keep.begin(), count, made.given.begin());
  if (count == 0 || made.given[0] != 0) return made;
  const double context = std::floor(options.f64("context") * static_cast<double>(count));
  const auto prompt = static_cast<size_t>(options.f64("context") > 0 ? std::max(1.0, context) : 0);
  std::fill_n(made.given.begin(), std::min(prompt, count), uint8_t{1});
  return made;
}

// Returns what the lines depend on, in the order in which a difference is named.
Json settings_of(const text::Dataset& data, const TrajectoryExtractor& extractor,
                 const Options& options, const Task* task) {
  Json made = options.to_json();
  for (const char* key : {"batch", "limit", "fresh"}) made.erase(key);
  made["teacher"] = extractor.teacher(task);
  made["tokenizer"] = fmt::format("{:016x}", data.vocabulary());
  made["data"] = {{"rows", data.size()},
                  {"tokens", data.tokens()},
                  {"hash", fmt::format("{:016x}", data.content())}};
  return made;
}

// The rows of one call, and where their lines go.
class Extraction {
public:
  Extraction(const text::Dataset& data, std::shared_ptr<model::Model> model,
             const std::string& path, const Options& options, Task* task)
      : data_(data), options_(options), task_(task),
        extractor_(std::move(model), options, data.special().mask),
        file_(path, checked_settings(), options.boolean("fresh"), task) {}

  int64_t run() {
    const auto least = options_.i64("least");
    const int64_t limit = options_.i64("limit");
    std::vector<TrajectoryRow> rows;
    for (int64_t idx = 0; idx < data_.size(); ++idx) {
      if (file_.has(idx) || data_.row_length(idx) < least) continue;
      rows.push_back(row_of(data_, idx, options_));
      const auto waiting = static_cast<int64_t>(rows.size());
      const bool last = limit > 0 && written_ + waiting == limit;
      if (waiting < options_.i64("batch") && !last) continue;
      write(rows, idx);
      if (last) break;
    }
    write(rows, data_.size() - 1);
    return written_;
  }

private:
  Json checked_settings() const {
    if (options_.str("lines") == "rows" && extractor_.mask_id() < 0) {
      fail_with_hint("set lines to compact, or name a mask token with option mask of the tokenizer",
                     Code::failed_precondition, "lines of rows need a mask token");
    }
    return settings_of(data_, extractor_, options_, task_);
  }
  void write(std::vector<TrajectoryRow>& rows, int64_t last) {
    if (rows.empty()) return;
    for (text::Trajectory& made : extractor_.run(rows, task_)) {
      const text::TokenRow row = data_.row(made.idx);
      file_.append(made.idx, line_of(made, row.ids));
      ++written_;
    }
    rows.clear();
    if (task_ != nullptr) task_->set_progress(last + 1, data_.size());
  }
  std::string line_of(text::Trajectory& made, std::span<const int32_t> ids) const {
    const auto shown = ids.first(made.order.size());
    if (options_.str("lines") == "rows") return text::rows_line(made, shown, extractor_.mask_id());
    if (std::ranges::equal(made.tokens, shown)) made.tokens.clear();
    made.key = text::row_key_text(ids);
    return text::compact_line(made);
  }

  const text::Dataset& data_;
  const Options& options_;
  Task* task_;
  TrajectoryExtractor extractor_;
  text::TrajectoryFile file_;
  int64_t written_ = 0;
};

} // namespace

int64_t extract_trajectories(const text::Dataset& data, std::shared_ptr<model::Model> model,
                             const std::string& path, const Options& options, Task* task) {
  if (data.is_text()) {
    fail_with_hint("open the dataset with a tokenizer", Code::failed_precondition,
                   "trajectories need token rows, but the dataset holds texts");
  }
  return Extraction(data, std::move(model), path, options, task).run();
}

} // namespace dllm::decode
