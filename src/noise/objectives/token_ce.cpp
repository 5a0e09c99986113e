#include "noise/loss/token_ce.h"

#include "base/error.h"
#include "graph/ops.h"
#include "model/network/row_parts.h"
#include "noise/objectives/table.h"

namespace dllm::noise {
namespace {

// One entry per target, with the index of the hidden state that predicts it.
struct PackedRows {
  Tensor rows, targets, weights;
  int64_t count = 0;
};

PackedRows pack_rows(const Tensor& targets, const Tensor& weights,
                     const TokenCeSettings& settings) {
  const int64_t batch = targets.shape()[0], seq = targets.shape()[1];
  PackedRows packed{Tensor(DType::i32, {batch * seq}), Tensor(DType::i32, {batch * seq}),
                    Tensor(DType::f32, {batch * seq})};
  const auto rows = packed.rows.mutable_as<int32_t>();
  const auto row_targets = packed.targets.mutable_as<int32_t>();
  const auto row_weights = packed.weights.mutable_as<float>();
  const auto target = targets.as<int32_t>();
  const auto weight = weights.as<float>();
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < seq; ++i) {
      const auto at = static_cast<size_t>(b * seq + i);
      if (target[at] < 0 || weight[at] == 0.0f) continue;
      const int64_t source = predicting_position(i, seq, settings);
      if (source < 0) {
        fail_with_hint(
            "give position 0 the target -1, or use shift = 0", Code::invalid_argument,
            "targets[{}, {}] cannot be predicted with shift {}: no position is before it", b, i,
            settings.shift);
      }
      const auto slot = static_cast<size_t>(packed.count++);
      rows[slot] = static_cast<int32_t>(b * seq + source);
      row_targets[slot] = target[at];
      row_weights[slot] = weight[at];
    }
  }
  for (auto slot = static_cast<size_t>(packed.count); slot < rows.size(); ++slot)
    row_targets[slot] = -1;
  return packed;
}

// Rows of a batch without a normalizer count their targets.
Tensor default_normalizer(const Tensor& targets) {
  const int64_t batch = targets.shape()[0], seq = targets.shape()[1];
  Tensor counts(DType::f32, {batch});
  const auto target = targets.as<int32_t>();
  for (int64_t b = 0; b < batch; ++b) {
    int64_t count = 0;
    for (int64_t i = 0; i < seq; ++i)
      count += target[static_cast<size_t>(b * seq + i)] >= 0 ? 1 : 0;
    counts.mutable_as<float>()[static_cast<size_t>(b)] = static_cast<float>(count);
  }
  return counts;
}

} // namespace

int64_t predicting_position(int64_t position, int64_t seq, const TokenCeSettings& settings) {
  if (settings.shift == 0) return position;
  if (position < settings.shift) return settings.first_predicts_itself ? position : -1;
  const bool two_stream = settings.attention == model::AttentionKind::two_stream;
  const bool begins_block = two_stream && settings.clean_predicts_blocks && settings.block > 0 &&
                            position < seq / 2 && position % settings.block == 0;
  return position - settings.shift + (begins_block ? seq / 2 : 0);
}

Batch token_ce_feed(const model::TokenBatch& rows, const TokenCeSettings& settings) {
  const PackedRows packed = pack_rows(rows.targets, rows.weights, settings);
  Batch feed = model::input_arrays(rows, settings.attention, settings.block);
  feed.set(kHeadRows, packed.rows);
  feed.set(kHeadTargets, packed.targets);
  feed.set(kHeadWeights, packed.weights);
  feed.set(kHeadCount, Tensor::scalar(static_cast<int32_t>(packed.count)));
  feed.set(kNormalizer,
           rows.normalizer.defined() ? rows.normalizer : default_normalizer(rows.targets));
  return feed;
}

Loss token_ce_loss(model::Builder& builder, const LossInputs& inputs) {
  const graph::Value hidden = builder.forward(inputs.tokens).hidden; // (batch, seq, hidden)
  const graph::Value flat = graph::reshape(hidden, {hidden.dim(0) * hidden.dim(1), hidden.dim(2)});
  // Over axis sequence all ranks have the same rows and divide them.
  const int64_t ranks = builder.sequence_ranks();
  const auto own = [&](graph::Value x) { return model::dealt_rows(x, ranks); };
  const auto total = [&](graph::Value of_rows) {
    const graph::Value sum = graph::sum(of_rows, {0});
    return ranks == 1 ? sum : graph::all_reduce(sum, graph::AxisSet(graph::Axis::sequence));
  };
  const graph::Value rows = graph::take(flat, own(inputs.head_rows)); // (capacity / ranks, hidden)
  const graph::Value nll =
      model::cross_entropy(builder.head(), rows, own(inputs.head_targets),
                           model::dealt_count(inputs.head_count, ranks)); // (capacity / ranks)
  Loss loss;
  loss.sum = total(graph::multiply(nll, own(inputs.head_weights)));
  loss.normalizer = graph::sum(inputs.normalizer, {0});
  loss.parts.push_back(
      {"nll", total(graph::stop_gradient(nll)), graph::convert(inputs.head_count, DType::f32)});
  return loss;
}

TokenRows token_rows(const Batch& batch, int64_t vocab, bool first_is_given) {
  model::TokenRules rules;
  rules.use = model::TokenUse::raw_rows;
  rules.vocab = vocab;
  TokenRows rows;
  rows.first_is_given = first_is_given;
  rows.arrays = model::parse_tokens(batch, rules);
  rows.batch = rows.arrays.batch;
  rows.seq = rows.arrays.seq;
  rows.ids = rows.arrays.ids.as<int32_t>();
  if (rows.arrays.keep.defined()) rows.keep = rows.arrays.keep.as<uint8_t>();
  if (rows.arrays.segments.defined()) rows.segments = rows.arrays.segments.as<int32_t>();
  if (rows.arrays.labels.defined()) rows.labels = rows.arrays.labels.as<int32_t>();
  return rows;
}

namespace {

// For scripts and tests: the batch has ids, targets and weights, and the objective has only the
// loss.
class TokenCe final : public Objective {
public:
  TokenCe(ScheduleRef schedule, const Options& options) : Objective(std::move(schedule), options) {}
  const std::string& name() const override { return name_; }
  bool needs_mask_id() const override { return false; }
  Batch prepare_rows(const Batch&, uint64_t, int64_t, const PrepareContext&) const override {
    fail_with_hint("fill targets (-1: not counted) and weights, each (batch, seq)",
                   Code::invalid_argument, "objective token_ce takes prepared batches only");
  }

private:
  std::string name_ = "token_ce";
};

} // namespace

ObjectiveEntry objective_files::token_ce() {
  return {"token_ce",
          "linear",
          shared_objective_options(),
          new_objective<TokenCe>,
          {.rows = RowKind::given}};
}

} // namespace dllm::noise
