#include "decode/trace/published.h"

#include "base/error.h"

#include <nlohmann/json.hpp>

#include <utility>

namespace dllm::decode {

std::string trace_line(const Request& request, std::span<const int64_t> decided) {
  nlohmann::ordered_json line = {{"slot", request.number},
                                 {"block", request.block},
                                 {"step", request.steps},
                                 {"nfe", request.evaluations},
                                 {"open", request.open_count(0, request.length())},
                                 {"decided", std::vector<int64_t>(decided.begin(), decided.end())},
                                 {"ids", request.ids}};
  std::vector<int> states;
  for (State state : request.states) states.push_back(static_cast<int>(state));
  line["states"] = states;
  line["confidence"] = request.confidence;
  return line.dump() + "\n";
}

void TraceLog::add(const Request& request, std::span<const int64_t> decided) {
  if (stopped_) return;
  std::string line = trace_line(request, decided);
  if (bytes_ + static_cast<int64_t>(line.size()) > most_bytes_) {
    const nlohmann::ordered_json last = {{"slot", request.number},
                                         {"step", request.steps},
                                         {"stopped", "trace_bytes"},
                                         {"bytes", bytes_}};
    line = last.dump() + "\n";
    stopped_ = true;
  }
  bytes_ += static_cast<int64_t>(line.size());
  lines_.push_back(std::move(line));
}

// Does not read the link after the last line, because another thread may be adding there.
std::string TraceLog::text(size_t lines) const {
  std::string all;
  for (auto line = lines_.begin(); lines > 0; --lines) {
    all += *line;
    if (lines > 1) ++line;
  }
  return all;
}

void Published::put(Slots changed, const DecoderTotals& totals, bool drop_others) {
  Slots before; // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  before = drop_others ? std::exchange(now_.slots, {}) : Slots();
  for (auto& [number, copy] : changed) now_.slots[number].swap(copy);
  now_.totals = totals;
}

void Published::remove(int64_t number, const DecoderTotals& totals) {
  RequestCopyRef before;
  const std::lock_guard lock(mutex_);
  if (const auto found = now_.slots.find(number); found != now_.slots.end()) {
    before = std::move(found->second);
    now_.slots.erase(found);
  }
  now_.totals = totals;
}

RequestCopyRef Published::request(int64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = now_.slots.find(number);
  if (found == now_.slots.end()) fail(Code::not_found, "there is no slot {}", number);
  return found->second;
}

Published::All Published::all() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

} // namespace dllm::decode
