#include "decode/trajectory/reveal_rule.h"

#include "base/error.h"
#include "base/named_table.h"

#include <algorithm>
#include <numeric>

namespace dllm::decode {

std::vector<int64_t> RevealState::hidden(int64_t begin, int64_t end) const {
  std::vector<int64_t> made;
  for (int64_t i = std::max(begin, first); i < std::min(end, length()); ++i) {
    if (order[static_cast<size_t>(i)] < 0) made.push_back(i);
  }
  return made;
}

namespace {

// Returns the indices of the lowest numbers, which keep their order where they are equal.
std::vector<size_t> lowest(std::span<const float> numbers, int64_t count) {
  std::vector<size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return numbers[a] < numbers[b]; });
  order.resize(std::min(order.size(), static_cast<size_t>(count)));
  return order;
}

std::vector<size_t> all_of(std::span<const int64_t> wanted) {
  std::vector<size_t> made(wanted.size());
  std::iota(made.begin(), made.end(), size_t{0});
  return made;
}

// Returns the indices below the threshold, or else the index of the lowest number.
std::vector<size_t> below(std::span<const float> numbers, double threshold) {
  std::vector<size_t> made;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] < static_cast<float>(threshold)) made.push_back(i);
  }
  return made.empty() ? lowest(numbers, 1) : made;
}

int64_t steps_of(const Options& options, int64_t usual) {
  return options.i64("steps") > 0 ? options.i64("steps") : usual;
}

// The tokens with the lowest entropies, ceil(n / steps) of them, so that `steps` rows are enough.
class Scheduled final : public RevealRule {
public:
  explicit Scheduled(const Options& options) : steps_(steps_of(options, 32)) {}
  std::vector<size_t> choose(const RevealState& state, std::span<const int64_t>,
                             std::span<const float> entropies) const override {
    return lowest(entropies, std::max<int64_t>(1, (state.hidden_first + steps_ - 1) / steps_));
  }

private:
  int64_t steps_;
};

// The tokens with an entropy below the threshold. After `steps` rows all that are left.
class Entropy final : public RevealRule {
public:
  explicit Entropy(const Options& options)
      : steps_(steps_of(options, 16)),
        threshold_(options.is_set("threshold") ? options.f64("threshold") : 1.5) {}
  bool shows_predictions() const override { return true; }
  bool ends_after_next(const RevealState& state) const override { return state.rows == steps_; }
  std::vector<size_t> choose(const RevealState&, std::span<const int64_t>,
                             std::span<const float> entropies) const override {
    return below(entropies, threshold_);
  }

private:
  int64_t steps_;
  double threshold_;
};

// The first hidden tokens, floor(n / steps) of them. After `steps` steps all that are left.
class LeftToRight final : public RevealRule {
public:
  explicit LeftToRight(const Options& options) : steps_(steps_of(options, 16)) {}
  bool reads_model() const override { return false; }
  std::vector<size_t> choose(const RevealState& state, std::span<const int64_t> wanted,
                             std::span<const float>) const override {
    std::vector<size_t> made = all_of(wanted);
    if (state.rows > steps_) return made;
    const auto count = static_cast<size_t>(std::max<int64_t>(1, state.hidden_first / steps_));
    made.resize(std::min(made.size(), count));
    return made;
  }

private:
  int64_t steps_;
};

// Block after block: the token with the lowest entropy, and the others below the threshold.
class BlockWise final : public RevealRule {
public:
  explicit BlockWise(const Options& options)
      : block_(options.i64("block_length")), threshold_(options.f64("threshold")) {}
  bool shows_predictions() const override { return true; }
  std::vector<int64_t> wanted(const RevealState& state) const override {
    for (int64_t begin = state.first; begin < state.length(); begin += block_) {
      std::vector<int64_t> hidden = state.hidden(begin, begin + block_);
      if (!hidden.empty()) return hidden;
    }
    return {};
  }
  std::vector<size_t> choose(const RevealState&, std::span<const int64_t>,
                             std::span<const float> entropies) const override {
    return below(entropies, threshold_);
  }

private:
  int64_t block_;
  double threshold_;
};

struct RuleEntry {
  std::string name;
  std::vector<std::string> keys; // options that only some rules use
  std::unique_ptr<RevealRule> (*make)(const Options&);
};

template <class T> std::unique_ptr<RevealRule> new_rule(const Options& options) {
  return std::make_unique<T>(options);
}

const std::vector<RuleEntry>& table() {
  static const std::vector<RuleEntry> rules = {
      {"scheduled", {"steps", "attention", "shift", "fill", "suppress_mask"}, new_rule<Scheduled>},
      {"entropy",
       {"steps", "threshold", "attention", "shift", "fill", "suppress_mask"},
       new_rule<Entropy>},
      {"left_to_right", {"steps"}, new_rule<LeftToRight>},
      {"block_wise",
       {"threshold", "block_length", "attention", "shift", "fill", "suppress_mask"},
       new_rule<BlockWise>},
  };
  return rules;
}

} // namespace

std::unique_ptr<RevealRule> make_reveal_rule(const Options& options) {
  const std::string& method = options.str("method");
  const RuleEntry& entry =
      need_named(table(), method, &RuleEntry::name, {"method of trajectories"});
  for (const RuleEntry& other : table()) {
    for (const std::string& key : other.keys) {
      if (!options.is_set(key) || std::ranges::find(entry.keys, key) != entry.keys.end()) continue;
      fail_with_hint("leave " + key + " out", Code::invalid_argument,
                     "method {} does not use option {}", method, key);
    }
  }
  return entry.make(options);
}

std::vector<std::string> reveal_rule_names() {
  return names_of(table(), &RuleEntry::name);
}

} // namespace dllm::decode
