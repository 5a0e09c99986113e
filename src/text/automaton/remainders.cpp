#include "text/automaton/remainders.h"

#include <map>
#include <utility>

namespace dllm::text {

// Groups are split until each digit leads all remainders of a group to one group (Moore). They are
// numbered from remainder 0 on.
Remainders::Remainders(int32_t divisor) : divisor_(divisor) {
  std::vector<int32_t> group(static_cast<size_t>(divisor), 1);
  group[0] = 0;
  const auto after = [&](int32_t remainder, int32_t digit) {
    return group[static_cast<size_t>((10 * remainder + digit) % divisor)];
  };
  using Key = std::pair<int32_t, std::array<int32_t, 10>>;
  for (size_t count = 0;;) {
    std::map<Key, int32_t> numbers;
    std::vector<int32_t> split(group.size());
    for (int32_t remainder = 0; remainder < divisor; ++remainder) {
      Key key = {group[static_cast<size_t>(remainder)], {}};
      for (int32_t digit = 0; digit < 10; ++digit)
        key.second[static_cast<size_t>(digit)] = after(remainder, digit);
      const auto number = static_cast<int32_t>(numbers.size());
      split[static_cast<size_t>(remainder)] = numbers.emplace(key, number).first->second;
    }
    group = std::move(split);
    if (std::exchange(count, numbers.size()) == numbers.size()) break;
  }
  for (int32_t remainder = 0; remainder < divisor; ++remainder) {
    if (group[static_cast<size_t>(remainder)] != size()) continue; // not the first of its group
    std::array<int32_t, 10> row = {};
    for (int32_t digit = 0; digit < 10; ++digit)
      row[static_cast<size_t>(digit)] = after(remainder, digit);
    next_.push_back(row);
  }
}

} // namespace dllm::text
