#include "generate/queue/fair_order.h"

#include <algorithm>

namespace dllm::generate {

void FairOrder::add(int64_t number, int64_t priority, const std::string& client, double cost) {
  waiting_.emplace(number, Waiting{priority, client, cost});
}

bool FairOrder::remove(int64_t number) {
  return waiting_.erase(number) > 0;
}

double FairOrder::start_of(const std::string& client) const {
  const auto found = busy_until_.find(client);
  return found == busy_until_.end() ? now_ : std::max(now_, found->second);
}

std::optional<int64_t> FairOrder::take() {
  auto best = waiting_.end();
  double best_start = 0;
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    const double start = start_of(it->second.client);
    const bool is_first = best == waiting_.end() || it->second.priority > best->second.priority ||
                          (it->second.priority == best->second.priority && start < best_start);
    if (!is_first) continue;
    best = it;
    best_start = start;
  }
  if (best == waiting_.end()) return std::nullopt;
  const int64_t number = best->first;
  now_ = best_start;
  busy_until_[best->second.client] = best_start + best->second.cost;
  waiting_.erase(best);
  forget_idle();
  return number;
}

// Clients may be as many as requests, so those whose turn has passed are not kept.
void FairOrder::forget_idle() {
  std::erase_if(busy_until_, [&](const auto& row) { return row.second <= now_; });
}

} // namespace dllm::generate
