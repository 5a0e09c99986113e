#include "noise/terms/align_rows.h"

#include "base/error.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dllm::noise {

std::vector<int32_t> aligned_positions(const AlignRow& row, AlignPositions which, int shift) {
  const auto is_padding = [&](int64_t i) {
    return !row.segments.empty() && row.segments[static_cast<size_t>(i)] == 0;
  };
  const auto is_target = [&](int64_t i) { return row.targets[static_cast<size_t>(i)] >= 0; };
  const auto is_shown = [&](int64_t i) {
    return row.shown[static_cast<size_t>(i)] == row.clean[static_cast<size_t>(i)];
  };
  std::vector<int32_t> found;
  for (int64_t i = 0; i < row.length; ++i) {
    const int64_t predicted = i + shift;
    const bool wanted = which == AlignPositions::supervised
                            ? predicted < row.length && is_target(predicted)
                        : which == AlignPositions::visible ? is_shown(i) && !is_padding(i)
                                                           : !is_padding(i);
    if (wanted) found.push_back(static_cast<int32_t>(i));
  }
  return found;
}

std::vector<int32_t> share_of(std::span<const int32_t> positions, std::span<const int64_t> order,
                              double share) {
  if (positions.empty()) return {};
  const auto wanted = std::floor(share * static_cast<double>(positions.size()));
  const size_t count = std::max<size_t>(1, static_cast<size_t>(wanted));
  std::vector<int32_t> made;
  for (size_t i = 0; i < count; ++i) made.push_back(positions[static_cast<size_t>(order[i])]);
  return made;
}

std::vector<int64_t> named_layers(const std::string& option, const std::vector<std::string>& names,
                                  int64_t of_model) {
  std::vector<int64_t> made;
  const bool is_all = names == std::vector<std::string>{"all"};
  for (int64_t layer = 0; is_all && layer <= of_model; ++layer) made.push_back(layer);
  for (const std::string& text : names) {
    if (is_all) break;
    const bool digits = !text.empty() && text.size() < 10 &&
                        text.find_first_not_of("0123456789") == std::string::npos;
    const int64_t layer = digits ? std::stoll(text) : -1;
    if (layer < 0 || layer > of_model) {
      fail_with_hint("0 is the embedding, 1 the first layer", Code::invalid_argument,
                     "{} names layer \"{}\", and the model has {} layers", option, text, of_model);
    }
    made.push_back(layer);
  }
  if (made.empty()) {
    for (int64_t i = 1; i <= 4; ++i) made.push_back((i * of_model + 3) / 4);
  }
  std::ranges::sort(made);
  made.erase(std::unique(made.begin(), made.end()), made.end());
  return made;
}

std::vector<int64_t> drawn_order(Key key, int64_t count) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::vector<uint32_t> bits(static_cast<size_t>(count));
  random_bits(key, bits);
  std::ranges::stable_sort(order, {}, [&](int64_t i) { return bits[static_cast<size_t>(i)]; });
  return order;
}

std::vector<float> layer_weights(int64_t count, double exponent, std::span<const bool> used) {
  std::vector<float> weights(static_cast<size_t>(count));
  double sum = 0;
  const auto own = [&](size_t a) {
    return std::exp(exponent * static_cast<double>(a) / static_cast<double>(count));
  };
  for (size_t a = 0; a < weights.size(); ++a) sum += used[a] ? own(a) : 0.0;
  for (size_t a = 0; a < weights.size(); ++a)
    weights[a] = used[a] ? static_cast<float>(own(a) / sum) : 0.0f;
  return weights;
}

std::vector<float> block_means(int64_t count, int64_t units, int64_t width) {
  std::vector<float> means(static_cast<size_t>(units * width));
  const int64_t length = count / units;
  for (int64_t unit = 0; unit < units; ++unit) {
    for (int64_t i = 0; i < length; ++i)
      means[static_cast<size_t>(unit * width + unit * length + i)] =
          1.0f / static_cast<float>(length);
  }
  return means;
}

} // namespace dllm::noise
