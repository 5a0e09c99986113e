// Diffusion over embeddings with self-conditioning (Dieleman et al. 2022, CDCD; Chen et al. 2023,
// Analog Bits; Gulrajani and Hashimoto 2023, Plaid). Each row has a time. The normed embedding e of
// every token becomes sqrt(alpha) e + sqrt(1 - alpha) noise, and the loss is the cross entropy of
// the token. In a share of the rows the model also reads its own estimate of a first pass. The
// decoding policy of the same name samples the model.

#include "base/error.h"
#include "graph/ops.h"
#include "noise/latent/embedding_space.h"
#include "noise/loss/token_ce.h"
#include "noise/objectives/table.h"
#include "noise/rows/row_normals.h"
#include "noise/rows/times.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::noise {
namespace {

constexpr const char* kGiven = "embedding_given"; // f32(batch, seq): 1 for given positions
// f32(batch, 3): time, alpha, and 1 where the model reads its own estimate.
constexpr const char* kRowNumbers = "embedding_rows";
constexpr const char* kNoiseKeys = "embedding_keys"; // u32(batch, 2)
constexpr uint32_t kNoiseUse = 1;                    // of row_keys

// The numbers of one row.
struct RowDraw {
  float prefix = 0, length = 0, estimate = 0; // uniform in [0, 1)
};

class Embedding final : public Objective {
public:
  Embedding(ScheduleRef schedule, const Options& options)
      : Objective(std::move(schedule), options), times_(options_) {
    if (options_.i64("shift") == 1) {
      fail_with_hint("leave shift out", Code::invalid_argument,
                     "objective embedding predicts the token of its own position: shift is 0");
    }
  }
  const std::string& name() const override { return name_; }
  bool needs_mask_id() const override { return false; }
  bool keeps_schedule() const override { return true; }
  bool spreads_over_rows() const override { return times_.spreads(); }
  model::AttentionKind attention(const model::ModelConfig& config) const override {
    return options_.str("attention") == "auto" ? model::AttentionKind::bidirectional
                                               : Objective::attention(config);
  }
  int shift(const model::ModelConfig&) const override { return 0; }
  std::vector<std::string> other_parts() const override {
    std::vector<std::string> parts = Objective::other_parts();
    parts.emplace_back(kInletPart);
    return parts;
  }
  std::vector<std::string> trained_parts() const override { return {model::kBasePart, kInletPart}; }
  std::map<std::string, Json> new_parts(const model::ModelConfig& base) const override {
    return {{kInletPart, inlet_config(base)}};
  }

  Batch prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                     const PrepareContext& context) const override;

protected:
  std::vector<std::string> prepared_arrays() const override {
    return {"t", kGiven, kRowNumbers, kNoiseKeys};
  }
  std::vector<std::string> raw_arrays() const override {
    return {"positions", "limit", "mask", "keys", "t"};
  }
  Batch feed_rows(const Batch& prepared, const model::ModelConfig& config) const override {
    Batch made = Objective::feed_rows(prepared, config);
    for (const char* name : {kGiven, kRowNumbers, kNoiseKeys}) made.set(name, prepared.at(name));
    return made;
  }
  Loss build_loss(model::Builder& builder, const LossInputs& inputs) const override;

private:
  std::string name_ = "embedding";
  TimeSampler times_;
};

RowDraw draw_row(const Key& key) {
  const auto uniform = [&](uint64_t at) { return uniform_from_bits(random_bits_at(key, at)); };
  return {uniform(0), uniform(1), uniform(2)};
}

bool has_given(const TokenRows& rows, int64_t row) {
  if (rows.keep.empty()) return false;
  const auto seq = static_cast<size_t>(rows.seq);
  return std::ranges::any_of(rows.keep.subspan(static_cast<size_t>(row) * seq, seq),
                             [](uint8_t kept) { return kept != 0; });
}

Batch Embedding::prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                              const PrepareContext& context) const {
  const TokenRows rows = token_rows(batch, context.vocab, false);
  const std::pair<int64_t, int64_t> global = batch.global_rows(rows.batch);
  std::vector<float> draws = times_.draws(rows.batch, 1, global, seed, step), levels;
  for (const float draw : draws) levels.push_back(times_.time(draw));
  inject_draws(batch, "t", levels);
  TokenCeArrays made(rows.batch, rows.seq, rows.ids);
  Tensor given(DType::f32, {rows.batch, rows.seq}), numbers(DType::f32, {rows.batch, 3});
  const auto targets = made.targets.mutable_as<int32_t>();
  const auto weights = made.weights.mutable_as<float>(), shown = given.mutable_as<float>();
  for (int64_t b = 0; b < rows.batch; ++b) {
    const auto row = static_cast<size_t>(b);
    const Key key = stream_key(seed, Stream::mask, static_cast<uint64_t>(step),
                               static_cast<uint64_t>(global.first + b));
    const RowDraw draw = draw_row(key);
    const bool has_prefix = !has_given(rows, b) && draw.prefix < options_.f64("prefix");
    const auto prefix =
        has_prefix ? static_cast<int64_t>(draw.length * static_cast<float>(rows.seq)) : 0;
    float counted = 0;
    for (int64_t i = 0; i < rows.seq; ++i) {
      const auto at = static_cast<size_t>(b * rows.seq + i);
      const bool is_given = i < prefix || (!rows.keep.empty() && rows.keep[at] != 0);
      shown[at] = is_given ? 1.0f : 0.0f;
      if (is_given || !rows.trainable(static_cast<int64_t>(at))) continue;
      targets[at] = rows.ids[at];
      weights[at] = 1.0f;
      ++counted;
    }
    made.normalizer.mutable_as<float>()[row] = counted;
    made.t.mutable_as<float>()[row] = levels[row];
    const std::span<float> own = numbers.mutable_as<float>().subspan(3 * row, 3);
    own[0] = levels[row];
    own[1] = static_cast<float>(schedule_->alpha(levels[row]));
    own[2] = draw.estimate < options_.f64("self_condition") ? 1.0f : 0.0f;
  }
  Batch prepared = made.added_to(batch);
  prepared.set(kGiven, given);
  prepared.set(kRowNumbers, numbers);
  prepared.set(kNoiseKeys, row_keys(seed, step, global.first, rows.batch, kNoiseUse));
  set_timesteps(prepared, made.t, context);
  return prepared;
}

Loss Embedding::build_loss(model::Builder& builder, const LossInputs& inputs) const {
  graph::Graph& graph = builder.graph();
  const graph::Value table = normed_embeddings(builder), ids = inputs.tokens.ids;
  const int64_t batch = ids.dim(0), seq = ids.dim(1), width = table.dim(1);
  const graph::Value numbers = inputs.all.at(kRowNumbers);
  const auto column = [&](int64_t at) {
    return graph::reshape(graph::slice_axis(numbers, 1, at, at + 1), {batch, 1, 1});
  };
  const graph::Value alpha = column(1), one = graph::scalar(graph, 1.0f);
  const graph::Value noise = row_normals(inputs.all.at(kNoiseKeys), {batch, seq, width});
  NoisyEmbeddings in;
  in.clean = graph::take(table, ids);
  in.numbers = graph::add(graph::multiply(graph::sqrt(alpha), in.clean),
                          graph::multiply(graph::sqrt(graph::subtract(one, alpha)), noise));
  in.given = graph::reshape(inputs.all.at(kGiven), {batch, seq, 1});
  in.levels = graph::reshape(column(0), {batch});
  in.previous = graph::multiply(in.clean, graph::scalar(graph, 0.0f));
  const auto states = [&] {
    model::ForwardInputs tokens = inputs.tokens;
    tokens.ids = {};
    tokens.embeddings = inlet_stream(builder, in);
    return graph::reshape(builder.forward(tokens).hidden, {batch * seq, width});
  };
  if (options_.f64("self_condition") > 0) {
    const graph::Value first = expected_embeddings(table, builder.logits(states()));
    in.previous = graph::multiply(graph::stop_gradient(graph::reshape(first, {batch, seq, width})),
                                  column(2));
  }
  const graph::Value nll =
      model::cross_entropy(builder.head(), graph::take(states(), inputs.head_rows),
                           inputs.head_targets, inputs.head_count);
  Loss loss;
  loss.sum = graph::sum(graph::multiply(nll, inputs.head_weights), {0});
  loss.normalizer = graph::sum(inputs.normalizer, {0});
  loss.parts.push_back({"nll", graph::sum(graph::stop_gradient(nll), {0}),
                        graph::convert(inputs.head_count, DType::f32)});
  return loss;
}

} // namespace

ObjectiveEntry objective_files::embedding() {
  std::vector<OptionSpec> keys = shared_objective_options();
  for (OptionSpec& row : time_options()) keys.push_back(std::move(row));
  keys.push_back(option_f64("self_condition", 0.5, 0, 1,
                            "Share of the rows in which the model reads its own estimate of the "
                            "text; 0: one pass instead of two."));
  keys.push_back(option_f64("prefix", 0.5, 0, 1,
                            "Share of the rows that have a prefix without noise, of any length, as "
                            "a prompt. Rows with given tokens keep those."));
  return {"embedding",
          "tangent",
          std::move(keys),
          new_objective<Embedding>,
          {.rows = RowKind::vectors,
           .shift = 0,
           .policy = "embedding",
           .sample = R"({"policy": "embedding", "steps": 32, "schedule": "tangent"})",
           .sample_at_end = true}};
}

} // namespace dllm::noise
