#include "cpu/kernel.h"
#include "cpu/kernels/draw.h"
#include "cpu/kernels/rows/rows.h"
#include "cpu/kernels/weight.h"
#include "graph/filters/order.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace dllm::cpu {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();
// Logits of one tile of rows, 32 MB. A tile has at least 8 rows, even if their logits need more.
constexpr int64_t kTileFloats = int64_t{1} << 23;

// The settings of a filter for all rows.
struct FilterColumn {
  const graph::DrawFilter* filter;
  const Operand* column; // (capacity), i32 or f32

  double of(int64_t row) const {
    return filter->counts_ids() ? static_cast<double>(column->in<int32_t>()[row])
                                : static_cast<double>(column->in<float>()[row]);
  }
};

struct Inputs {
  const float* temperature;
  std::span<const FilterColumn> filters;
  const float* uniform;
  const float* noise; // (capacity, vocab) or null
  std::span<const int32_t> banned;
  const uint8_t* own_banned; // (capacity, vocab) or null
  bool shaped;
  bool as_softmax; // probabilities are exp(z - max) / sum
};

struct Outputs {
  int32_t* argmax;
  float* max_prob;
  float* log_sum_exp;
  float* entropy;
  int32_t* top_ids; // (capacity, top)
  float* top_probs; // (capacity, top)
  int32_t* draw;
  float* draw_prob;
  float* shaped_prob;
  float* shaped_margin;
  float* shaped_entropy;
  int64_t top;

  Outputs(const KernelCall& call, int64_t width)
      : argmax(call.outputs[0].out<int32_t>()), max_prob(call.outputs[1].out<float>()),
        log_sum_exp(call.outputs[2].out<float>()), entropy(call.outputs[3].out<float>()),
        top_ids(call.outputs[4].out<int32_t>()), top_probs(call.outputs[5].out<float>()),
        draw(call.outputs[6].out<int32_t>()), draw_prob(call.outputs[7].out<float>()),
        shaped_prob(call.outputs[8].out<float>()), shaped_margin(call.outputs[9].out<float>()),
        shaped_entropy(call.outputs[10].out<float>()), top(width) {}

  void clear(int64_t row) const {
    argmax[row] = draw[row] = 0;
    max_prob[row] = log_sum_exp[row] = entropy[row] = draw_prob[row] = 0.0f;
    shaped_prob[row] = shaped_margin[row] = shaped_entropy[row] = 0.0f;
    std::fill_n(top_ids + row * top, top, 0);
    std::fill_n(top_probs + row * top, top, 0.0f);
  }
  // Sets the statistics of a row to NaN. The ids have no meaning then.
  void set_nan(int64_t row) const {
    constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
    max_prob[row] = log_sum_exp[row] = entropy[row] = draw_prob[row] = kNone;
    shaped_prob[row] = shaped_margin[row] = shaped_entropy[row] = kNone;
    std::fill_n(top_probs + row * top, top, kNone);
  }
};

std::vector<int32_t> ids_of(const uint8_t* flags, int64_t vocab) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < vocab && flags != nullptr; ++i) {
    if (flags[i] != 0) ids.push_back(static_cast<int32_t>(i));
  }
  return ids;
}

// Bans the ids whose entry of `banned` (vocab) is 1.
void ban(const uint8_t* banned, int64_t vocab, float* logits) {
  constexpr int64_t kBits = 64;
  for (int64_t begin = 0; begin < vocab; begin += kBits) {
    const int64_t count = std::min(kBits, vocab - begin);
    uint64_t bits = rows().nonzero_bits(banned + begin, count);
    if (bits == ~uint64_t{0}) {
      for (int64_t i = 0; i < kBits; ++i) logits[begin + i] = kBanned;
      continue;
    }
    for (; bits != 0; bits &= bits - 1) logits[begin + std::countr_zero(bits)] = kBanned;
  }
}

// Computes all statistics of one row of logits (vocab). `weights` and `ids` (vocab) are work space.
void row_statistics(const Inputs& in, const Outputs& out, int64_t row, float* logits, int64_t vocab,
                    float* weights, int32_t* ids) {
  out.clear(row);
  for (const int32_t id : in.banned) logits[id] = kBanned;
  const uint8_t* const own = in.own_banned == nullptr ? nullptr : in.own_banned + row * vocab;
  if (own != nullptr) ban(own, vocab, logits);
  OnlineSoftmax softmax;
  softmax.add_with_entropy(logits, vocab);
  if (!std::isfinite(softmax.sum)) return out.set_nan(row); // a logit is NaN or +infinity
  if (!std::isfinite(softmax.maximum)) return;              // every id is banned
  const float lse = softmax.log_sum_exp();
  const auto total = static_cast<float>(softmax.sum);
  const auto probability = [&](int64_t id) {
    return in.as_softmax ? exact_exp(logits[id] - softmax.maximum) / total
                         : exact_exp(logits[id] - lse);
  };
  out.log_sum_exp[row] = lse;
  out.entropy[row] = softmax.entropy();
  const float* const end = logits + vocab;
  const int64_t best = std::find(softmax.piece, end, softmax.maximum) - logits;
  out.argmax[row] = static_cast<int32_t>(best);
  out.max_prob[row] = probability(best);
  int64_t found = 1;
  ids[0] = static_cast<int32_t>(best); // for top = 1 no second pass over the vocabulary is needed
  if (out.top != 1) found = graph::best_ids(logits, vocab, out.top, ids);
  for (int64_t i = 0; i < found; ++i) {
    out.top_ids[row * out.top + i] = ids[i];
    out.top_probs[row * out.top + i] = probability(ids[i]);
  }
  std::vector<FilterOfRow> filters;
  for (const FilterColumn& column : in.filters) {
    const double setting = column.of(row);
    if (column.filter->is_on(setting, vocab)) filters.push_back({column.filter, setting});
  }
  const DrawRequest request{in.temperature[row], filters, in.uniform[row],
                            in.noise == nullptr ? nullptr : in.noise + row * vocab};
  const bool greedy = !(request.temperature > 0.0f) || std::isinf(1.0f / request.temperature);
  out.draw[row] =
      greedy ? out.argmax[row] : draw(request, logits, vocab, softmax.maximum, weights, ids);
  out.draw_prob[row] = probability(out.draw[row]);
  if (!in.shaped) return;
  const ShapedRow shaped =
      shaped_row(request, logits, vocab, softmax.maximum, out.draw[row], weights, ids);
  out.shaped_prob[row] = shaped.prob;
  out.shaped_margin[row] = shaped.margin;
  out.shaped_entropy[row] = shaped.entropy;
}

// Calls work(row, slot) for every row; each slot has its own work space. A run that may be paused
// calls look() after each thread has finished a row.
template <class Work>
void for_rows(const KernelCall& call, int64_t rows, int64_t slots, const Work& work) {
  if (call.pause == nullptr) {
    const int64_t used = std::min(slots, rows);
    parallel(call.pool, used, [&](int64_t slot) {
      for (int64_t row = slot; row < rows; row += used) {
        call.pool.check();
        work(row, slot);
      }
    });
    return;
  }
  const int64_t together = std::min<int64_t>(slots, call.pool.threads());
  for (int64_t begin = 0; begin < rows; begin += together) {
    call.pause->look();
    parallel(call.pool, std::min(together, rows - begin),
             [&](int64_t slot) { work(begin + slot, slot); });
  }
}

// x, weight, [bias], [scale], [count], temperature, filters, uniform, [noise], [banned] ->
// TokenStatistics. Logits exist for one tile of rows at a time. One thread computes the statistics
// of a row.
Kernel make_token_statistics(const CompileInfo& info) {
  ScratchLayout layout;
  const Head head(info, layout);
  const int count_input =
      info.node.attributes.flag("has_count") ? static_cast<int>(head.next_input()) : -1;
  const size_t first = head.next_input() + (count_input >= 0 ? 1 : 0);
  const bool has_noise = info.node.attributes.flag("has_noise"),
             has_banned = info.node.attributes.flag("has_banned"),
             shaped = info.node.attributes.flag("shaped"),
             as_softmax = info.node.attributes.has("as_softmax");
  const int64_t top = info.node.attributes.integer("top");
  const std::vector<const graph::DrawFilter*> filters =
      graph::named_filters(info.node.attributes.text("filters"));
  const bool has_own = has_banned && info.input(info.node.inputs.size() - 1).shape.rank() == 2;
  const int64_t capacity = head.capacity(), vocab = head.vocab();
  const int64_t most = std::max<int64_t>(8, kTileFloats / std::max<int64_t>(1, vocab));
  const int64_t tiles = (capacity + most - 1) / most;
  const int64_t tile = tiles == 0 ? 0 : (capacity + tiles - 1) / tiles;
  const int64_t slots = std::min<int64_t>(tile, 4 * info.threads);
  const int64_t logits = layout.add_floats(tile * vocab);
  const int64_t weights = layout.add_floats(slots * vocab), ids = layout.add_floats(slots * vocab);

  Kernel kernel;
  kernel.scratch_bytes = layout.bytes();
  kernel.wants.assign(info.node.inputs.size(), kPlain);
  kernel.wants[1] = head.wants();
  kernel.run = [=](const KernelCall& call) {
    const auto input = [&](size_t i) -> const Operand& { return call.inputs[first + i]; };
    std::vector<FilterColumn> columns;
    for (const graph::DrawFilter* filter : filters)
      columns.push_back({filter, &input(1 + columns.size())});
    const size_t uniform = 1 + filters.size(), noise = uniform + 1;
    const uint8_t* const flags =
        has_banned ? input(noise + (has_noise ? 1 : 0)).in<uint8_t>() : nullptr;
    const std::vector<int32_t> banned = ids_of(has_own ? nullptr : flags, vocab);
    const Inputs in{input(0).in<float>(),
                    columns,
                    input(uniform).in<float>(),
                    has_noise ? input(noise).in<float>() : nullptr,
                    banned,
                    has_own ? flags : nullptr,
                    shaped,
                    as_softmax};
    const Outputs out(call, top);
    const int64_t count = rows_in_use(call, count_input, capacity);
    for (int64_t row = count; row < capacity; ++row) out.clear(row);
    if (count == 0) return;
    const std::byte* panels = head.panels(call);
    const float* x = call.inputs[0].in<float>();
    float* z = reinterpret_cast<float*>(call.scratch + logits);
    for (int64_t begin = 0; begin < count; begin += tile) {
      const int64_t height = std::min(tile, count - begin);
      head.logits(call, panels, x + begin * head.in(), height, 0, vocab, z, vocab);
      const auto work = [&](int64_t row, int64_t slot) {
        float* w = reinterpret_cast<float*>(call.scratch + weights) + slot * vocab;
        int32_t* order = reinterpret_cast<int32_t*>(call.scratch + ids) + slot * vocab;
        row_statistics(in, out, begin + row, z + row * vocab, vocab, w, order);
      };
      for_rows(call, height, slots, work);
    }
  };
  return kernel;
}

constexpr KernelEntry kTokenStatisticsKernels[] = {
    {"token_statistics", make_token_statistics},
};

} // namespace

KernelList token_statistics_kernels() {
  return kTokenStatisticsKernels;
}

} // namespace dllm::cpu
