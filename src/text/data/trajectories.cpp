#include "text/data/trajectories.h"

#include "base/error.h"
#include "text/data/trajectory_file.h"

#include <algorithm>

namespace dllm::text {
namespace {

[[noreturn]] void fail_other(const std::string& place, int64_t idx, const std::string& difference) {
  fail_with_hint("extract the trajectories again with the data, tokenizer and options of this run",
                 Code::data_loss, "{}: the trajectory of row {} is of another text: {}", place, idx,
                 difference);
}

// Fails unless the trajectory is of this row.
void check_row(const Trajectory& made, std::span<const int32_t> ids, const std::string& place) {
  if (!made.key.empty()) {
    const std::string key = row_key_text(ids);
    if (made.key != key)
      fail_other(place, made.idx, fmt::format("its key is {}, expected {}", made.key, key));
  }
  if (made.length() > std::ssize(ids))
    fail_other(place, made.idx,
               fmt::format("it has {} tokens, the row has {}", made.length(), ids.size()));
  const auto known = std::min(made.tokens.size(), static_cast<size_t>(made.prompt));
  for (size_t i = 0; i < known; ++i) {
    if (made.tokens[i] == ids[i]) continue;
    fail_other(place, made.idx,
               fmt::format("token {} of the prompt is {}, expected {}", i, made.tokens[i], ids[i]));
  }
}

} // namespace

Trajectories::Trajectories(const std::string& path, const Dataset& data) {
  read_trajectories(path, nullptr, [&](Trajectory&& made, const std::string& place) {
    if (made.idx >= data.size()) {
      fail_with_hint("give the data that the trajectories were extracted from", Code::data_loss,
                     "{}: idx is {}, but the data has {} rows", place, made.idx, data.size());
    }
    check_row(made, data.row(made.idx).ids, place);
    orders_.emplace(made.idx, std::move(made.order));
  });
}

std::vector<int32_t> Trajectories::part(int64_t row, int64_t from, int64_t count) const {
  const auto found = orders_.find(row);
  if (found == orders_.end()) return std::vector<int32_t>(static_cast<size_t>(count), -1);
  std::vector<int32_t> made(static_cast<size_t>(count), 0);
  const auto known = static_cast<int64_t>(found->second.size());
  for (int64_t i = from; i < std::min(from + count, known); ++i)
    made[static_cast<size_t>(i - from)] = found->second[static_cast<size_t>(i)];
  return made;
}

} // namespace dllm::text
