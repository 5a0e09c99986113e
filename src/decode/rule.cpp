#include "decode/rule.h"

#include <algorithm>
#include <numeric>

namespace dllm::decode {

double Moment::t() const {
  return static_cast<double>(steps - slot.step_in_block) / static_cast<double>(steps);
}

double Moment::s() const {
  return static_cast<double>(steps - slot.step_in_block - 1) / static_cast<double>(steps);
}

std::vector<int64_t> Rule::wanted(const Moment& moment) const {
  return {moment.open.begin(), moment.open.end()};
}

double Rule::time(const Moment& moment) const {
  return std::max(moment.t(), 1.0 / static_cast<double>(moment.steps));
}

void for_coming_steps(const Moment& now, size_t count,
                      const std::function<void(size_t, const Moment&)>& use) {
  Slot slot; // times are all that a coming step is asked for
  slot.step_in_block = now.slot.step_in_block;
  for (size_t i = 0; i < count; ++i, ++slot.step_in_block)
    use(i, {slot, now.schedule, now.steps, {}, now.begin, now.end});
}

std::vector<size_t> largest(const std::vector<double>& scores, int64_t count) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  order.resize(std::min(order.size(), static_cast<size_t>(std::max<int64_t>(count, 0))));
  return order;
}

} // namespace dllm::decode
