// Every filter of draws compared with a plain reference: its form on the host, its graph, and all
// filters one after the other.

#include "graph/filters/filter.h"

#include "base/random.h"
#include "graph/ops.h"
#include "unit/graph/reference_evaluator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace dllm::graph {
namespace {

constexpr int64_t kVocab = 61;

// The ids that are left, likeliest first, with their probabilities.
struct Left {
  std::vector<int32_t> ids;
  std::vector<double> z, p; // of the ids; the probabilities add up to 1
};
// Returns the places of the ids that stay.
using Reference = std::vector<size_t> (*)(const Left& left, double setting);

std::vector<size_t> first_places(size_t count) {
  std::vector<size_t> places(count);
  std::iota(places.begin(), places.end(), size_t{0});
  return places;
}

std::vector<size_t> reference_top_k(const Left& left, double setting) {
  return first_places(std::min(left.ids.size(), static_cast<size_t>(setting)));
}

std::vector<size_t> reference_top_p(const Left& left, double setting) {
  double before = 0;
  size_t count = 0;
  for (; count < left.p.size() && (count == 0 || before < setting); ++count)
    before += left.p[count];
  return first_places(count);
}

std::vector<size_t> reference_min_p(const Left& left, double setting) {
  size_t count = 0;
  while (count < left.p.size() && left.p[count] >= setting * left.p[0]) ++count;
  return first_places(count);
}

const std::map<std::string, Reference>& references() {
  static const std::map<std::string, Reference> all = {
      {"top_k", reference_top_k}, {"top_p", reference_top_p}, {"min_p", reference_min_p}};
  return all;
}

Left left_of(const std::vector<float>& z, std::vector<int32_t> ids) {
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) { return z[a] > z[b]; });
  Left left{std::move(ids), {}, {}};
  double total = 0;
  for (const int32_t id : left.ids) {
    left.z.push_back(static_cast<double>(z[id]));
    left.p.push_back(std::exp(left.z.back() - left.z[0]));
    total += left.p.back();
  }
  for (double& p : left.p) p /= total;
  return left;
}

// Random logits, with equal ones and ids that are never drawn.
std::vector<float> random_logits(uint64_t seed) {
  std::vector<float> logits;
  for (uint64_t i = 0; i < kVocab; ++i) {
    const float number =
        uniform_from_bits(random_bits_at(stream_key(seed, Stream::decode, 0, 0), i));
    logits.push_back(i % 7 == 3 ? -INFINITY : std::round(number * 40.0f) / 8.0f);
  }
  return logits;
}

double random_setting(const DrawFilter& filter, uint64_t seed) {
  const double share = static_cast<double>(
      uniform_from_bits(random_bits_at(stream_key(seed, Stream::decode, 1, 1), 0)));
  if (filter.counts_ids()) return std::floor(1 + share * 20);
  return static_cast<double>(
      static_cast<float>(0.01 + share * std::min(filter.option.max, 1.5) * 0.98));
}

std::vector<int32_t> allowed_ids(const std::vector<float>& logits) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < kVocab; ++id)
    if (std::isfinite(logits[id])) ids.push_back(id);
  return ids;
}

// A row on the host, at temperature 1.
class HostRow {
public:
  explicit HostRow(const std::vector<float>& logits)
      : maximum_(*std::max_element(logits.begin(), logits.end())), ids_(kVocab) {
    for (const float logit : logits) weights_.push_back(std::exp(logit - maximum_));
    row = {logits.data(), weights_.data(), kVocab, maximum_, 1.0f, ids_.data()};
  }
  std::vector<int32_t> kept() {
    row.list();
    std::vector<int32_t> ids(ids_.begin(), ids_.begin() + row.count);
    std::sort(ids.begin(), ids.end());
    return ids;
  }
  DrawRow row{};

private:
  float maximum_;
  std::vector<float> weights_;
  std::vector<int32_t> ids_;
};

// The ids that a filter leaves of `before`, by its graph.
std::vector<int32_t> graph_kept(const DrawFilter& filter, const std::vector<float>& logits,
                                const std::vector<int32_t>& before, double setting) {
  Graph graph("filter");
  const Value z = graph.input("z", DType::f32, {1, kVocab});
  const Value kept = graph.input("kept", DType::u8, {1, kVocab});
  const Value number = graph.input("setting", filter.dtype(), {1});
  const FilteredRows rows{z, exp(subtract(z, max(z, {1}, true))), kept};
  graph.output("kept", logical_and(kept, filter.graph(rows, number)));
  std::vector<uint8_t> flags(kVocab, 0);
  for (const int32_t id : before) flags[id] = 1;
  const Tensor given =
      filter.counts_ids()
          ? Tensor::from(Shape{1}, std::vector<int32_t>{static_cast<int32_t>(setting)})
          : Tensor::from(Shape{1}, std::vector<float>{static_cast<float>(setting)});
  const Tensor made = test::evaluate(graph, {Tensor::from(Shape{1, kVocab}, logits),
                                             Tensor::from(Shape{1, kVocab}, flags), given})[0];
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < kVocab; ++id)
    if (made.as<uint8_t>()[id] != 0) ids.push_back(id);
  return ids;
}

std::vector<int32_t> reference_kept(const DrawFilter& filter, const std::vector<float>& logits,
                                    const std::vector<int32_t>& before, double setting) {
  const Left left = left_of(logits, before);
  std::vector<int32_t> ids;
  for (const size_t place : references().at(filter.name())(left, setting))
    ids.push_back(left.ids[place]);
  std::sort(ids.begin(), ids.end());
  return ids;
}

TEST(Filters, EachHasAReferenceAndARange) {
  for (const DrawFilter& filter : draw_filters()) {
    EXPECT_EQ(references().count(filter.name()), 1u) << filter.name();
    EXPECT_EQ(filter.option.min, 0) << filter.name();
    EXPECT_TRUE(filter.off() == 0 || filter.off() == filter.option.max) << filter.name();
    EXPECT_FALSE(filter.is_on(filter.off())) << filter.name();
  }
  EXPECT_EQ(filters_on(filters_off()), 0u);
}

TEST(Filters, EachEqualsItsReference) {
  for (const DrawFilter& filter : draw_filters()) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
      const std::vector<float> logits = random_logits(seed);
      const double setting = random_setting(filter, seed);
      SCOPED_TRACE(testing::Message() << filter.name() << " " << setting << " seed " << seed);
      const std::vector<int32_t> all = allowed_ids(logits);
      const std::vector<int32_t> wanted = reference_kept(filter, logits, all, setting);
      HostRow host(logits);
      filter.keep(host.row, setting);
      EXPECT_EQ(host.kept(), wanted);
      EXPECT_EQ(graph_kept(filter, logits, all, setting), wanted);
    }
  }
}

// Also in the other order, as policies that begin with top_p have it.
TEST(Filters, ActOneAfterTheOther) {
  const size_t count = draw_filters().size();
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const std::vector<float> logits = random_logits(seed);
    HostRow host(logits);
    std::vector<int32_t> wanted = allowed_ids(logits), by_graph = wanted;
    for (size_t i = 0; i < count; ++i) {
      const DrawFilter& filter = draw_filters()[seed % 2 == 0 ? i : count - 1 - i];
      const double setting = random_setting(filter, seed + i);
      SCOPED_TRACE(testing::Message() << filter.name() << " " << setting << " seed " << seed);
      wanted = reference_kept(filter, logits, wanted, setting);
      filter.keep(host.row, setting);
      by_graph = graph_kept(filter, logits, by_graph, setting);
      EXPECT_EQ(by_graph, wanted);
    }
    EXPECT_EQ(host.kept(), wanted) << "seed " << seed;
  }
}

TEST(Filters, AreOffAtTheirDefaults) {
  const DrawFilter& top_k = draw_filters()[filter_index("top_k")];
  EXPECT_TRUE(top_k.is_on(5, 6));
  EXPECT_FALSE(top_k.is_on(6, 6)) << "every id is left";
  EXPECT_FALSE(draw_filters()[filter_index("top_p")].is_on(1.2)) << "beyond the range";
  EXPECT_THROW(filter_index("topk"), Error);
}

} // namespace
} // namespace dllm::graph
