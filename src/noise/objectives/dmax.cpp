// On-policy uniform training (DMax; czg1225/DMax, OPUT): block diffusion at one high noise level.
// In some rows the model's own predictions, without a gradient, replace the masked tokens. The loss
// counts every trainable token, masked or not, so the model learns to correct its own mistakes, as
// soft parallel decoding (policy spd) needs:
//   x~ = argmax p(. | x_t) where masked in a row that is on policy, else x_t;
//   loss = 1 / tokens * sum over i of -log p(x_i | x~), in [x~ | x_0] as bd3lm.
// A batch costs one more forward pass when on_policy is above 0 (or its own flags put a row on
// policy).

#include "base/error.h"
#include "graph/ops.h"
#include "noise/loss/token_ce.h"
#include "noise/objectives/table.h"
#include "noise/rows/text_counts.h"
#include "noise/rows/trained_padding.h"
#include "noise/rows/two_stream.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::noise {
namespace {

constexpr const char* kRollout = "rollout"; // u8(batch, 2 seq): tokens that the model replaces
// i32(capacity): indices of these tokens. Entries after the count are not used.
constexpr const char* kRolloutAt = "rollout_at";
constexpr const char* kRolloutRow = "rollout_row"; // i32(capacity): the row that predicts the token
constexpr const char* kRolloutCount = "rollout_count"; // i32()

class DMax final : public MaskingObjective {
public:
  DMax(ScheduleRef schedule, const Options& options)
      : MaskingObjective(std::move(schedule), options), blocks_(options_) {
    if (options_.f64("noise_low") > options_.f64("noise_high")) {
      fail(Code::invalid_argument, "noise_low {} is above noise_high {}", options_.f64("noise_low"),
           options_.f64("noise_high"));
    }
  }
  const std::string& name() const override { return name_; }
  bool keyed_by_batch() const override { return jax(); }
  model::AttentionKind attention(const model::ModelConfig&) const override {
    return model::AttentionKind::two_stream;
  }
  Batch prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                     const PrepareContext& context) const override;
  Batch feed_rows(const Batch& prepared, const model::ModelConfig& config) const override;
  Json describe() const override;

protected:
  std::vector<std::string> raw_arrays() const override {
    return {"positions", "keys", "t", "flag"};
  }
  Loss build_loss(model::Builder& builder, const LossInputs& inputs) const override;

private:
  bool jax() const { return options_.str("compat") == "dllm-jax"; }
  struct Draws {                    // uniform random numbers
    std::vector<float> noise, flag; // (batch)
    std::vector<float> mask;        // (batch, seq)
  };
  Draws own_draws(const TokenRows& rows, int64_t first_row, uint64_t seed, int64_t step) const;
  Draws jax_draws(const TokenRows& rows, Key key) const;
  float noise_level(float uniform) const;
  int64_t trained_end(const TokenRows& rows, int64_t row) const;

  std::string name_ = "dmax";
  BlockSteps blocks_;
};

DMax::Draws DMax::own_draws(const TokenRows& rows, int64_t first_row, uint64_t seed,
                            int64_t step) const {
  Draws draws;
  for (int64_t b = 0; b < rows.batch; ++b) {
    const auto key = [&](Stream stream) {
      return stream_key(seed, stream, static_cast<uint64_t>(step),
                        static_cast<uint64_t>(first_row + b));
    };
    draws.noise.push_back(uniform_from_bits(random_bits_at(key(Stream::time), 0)));
    draws.flag.push_back(uniform_from_bits(random_bits_at(key(Stream::rollout), 0)));
    for (int64_t i = 0; i < rows.seq; ++i) {
      draws.mask.push_back(
          uniform_from_bits(random_bits_at(key(Stream::mask), static_cast<uint64_t>(i))));
    }
  }
  return draws;
}

// compat = dllm-jax: the key of the batch is split into keys of noise, masks and flags.
DMax::Draws DMax::jax_draws(const TokenRows& rows, Key batch_key) const {
  const std::vector<Key> keys = split(batch_key, 3);
  const auto batch = static_cast<size_t>(rows.batch);
  Draws draws{std::vector<float>(batch), std::vector<float>(batch),
              std::vector<float>(batch * static_cast<size_t>(rows.seq))};
  random_uniform(keys[0], draws.noise);
  random_uniform(keys[1], draws.mask);
  random_uniform(keys[2], draws.flag);
  return draws;
}

float DMax::noise_level(float uniform) const {
  const auto low = static_cast<float>(options_.f64("noise_low")),
             high = static_cast<float>(options_.f64("noise_high"));
  return low == high ? low : uniform * (high - low) + low;
}

// Returns the end of the trained tokens of a row. Rows are padded with the token that ends texts.
// The first tail_labels tokens of this padding are trained (czg1225/DMax: 32), so that the model
// learns to end a block with it.
int64_t DMax::trained_end(const TokenRows& rows, int64_t row) const {
  const int64_t most = options_.i64("tail_labels"), begin = row * rows.seq;
  const auto id = [&](int64_t i) { return rows.ids[static_cast<size_t>(begin + i)]; };
  if (most == 0 || rows.seq == 0) return rows.seq;
  int64_t first = rows.seq - 1; // first token of the padding
  while (first > 0 && id(first - 1) == id(rows.seq - 1)) --first;
  return std::min(rows.seq, first + most);
}

Batch DMax::prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                         const PrepareContext& given) const {
  const PrepareContext context = blocks_.at(step, given);
  const int32_t mask = mask_id(context);
  needed_block_length(*this, context);
  const Batch source = options_.i64("tail_labels") > 0 ? padding_trained(batch) : batch;
  const TokenRows rows = token_rows(source, context.vocab, context.shift == 1);
  Draws draws = jax() ? jax_draws(rows, reference_batch_key(seed, step, context))
                      : own_draws(rows, batch.global_rows(rows.batch).first, seed, step);
  inject_draws(batch, "u_mask", draws.mask);
  const Tensor noisy = batch.has("noisy_ids") ? batch.at("noisy_ids").to(DType::i32) : Tensor{};
  if (noisy.defined() && noisy.shape() != Shape{rows.batch, rows.seq}) {
    fail(Code::invalid_argument, "array noisy_ids has shape {}, expected ({}, {})",
         noisy.shape().text(), rows.batch, rows.seq);
  }
  std::vector<float> flags = draws.flag;
  const auto ratio = static_cast<float>(options_.f64("on_policy"));
  for (float& flag : flags) flag = flag < ratio ? 1.0f : 0.0f;
  inject_draws(batch, "flag", flags);
  std::vector<float> levels;
  for (const float draw : draws.noise) levels.push_back(noise_level(draw));
  inject_draws(batch, "t", levels);
  TokenCeArrays made(rows.batch, rows.seq, rows.ids);
  Tensor rollout(DType::u8, {rows.batch, 2 * rows.seq});
  const auto ids = made.ids.mutable_as<int32_t>(), targets = made.targets.mutable_as<int32_t>();
  const std::string& norm = options_.str("loss_norm");
  for (int64_t b = 0; b < rows.batch; ++b) {
    const auto row = static_cast<size_t>(b);
    const float level = levels[row];
    int64_t trained = 0;
    const int64_t last = trained_end(rows, b);
    for (int64_t i = 0; i < rows.seq; ++i) {
      const auto at = static_cast<size_t>(b * rows.seq + i);
      const bool is_first = rows.first_is_given && rows.starts_text(static_cast<int64_t>(at));
      if (noisy.defined() && !is_first) ids[at] = noisy.as<int32_t>()[at];
      if (!rows.trainable(static_cast<int64_t>(at)) || i >= last) continue;
      ++trained;
      targets[at] = rows.ids[at];
      const bool hidden = noisy.defined() ? ids[at] == mask : draws.mask[at] < level;
      if (!hidden) continue;
      ids[at] = mask;
      const auto place = static_cast<size_t>(2 * b * rows.seq + i);
      rollout.mutable_as<uint8_t>()[place] = flags[row] != 0.0f ? 1 : 0;
    }
    const TextCounts texts = text_counts(
        rows, b, [&](int64_t i) { return targets[static_cast<size_t>(b * rows.seq + i)] >= 0; });
    for (int64_t i = 0; i < rows.seq; ++i) {
      const auto at = static_cast<size_t>(b * rows.seq + i);
      const int64_t share = norm == "sequence" ? texts.tokens[static_cast<size_t>(i)] : 1;
      if (targets[at] >= 0)
        made.weights.mutable_as<float>()[at] = static_cast<float>(1.0 / static_cast<double>(share));
    }
    made.t.mutable_as<float>()[row] = level;
    const int64_t counted = norm == "token" ? trained : norm == "sequence" ? texts.texts : 1;
    made.normalizer.mutable_as<float>()[row] = static_cast<float>(counted);
  }
  Batch prepared = two_streams(made, source, options_.str("compat") == "none");
  prepared.set(kRollout, rollout);
  blocks_.note(prepared, context);
  return prepared;
}

Batch DMax::feed_rows(const Batch& prepared, const model::ModelConfig& config) const {
  Batch made = Objective::feed_rows(prepared, config);
  if (!prepared.has(kRollout)) return made; // rows of a caller: none is on policy
  const TokenCeSettings settings = token_ce_settings(prepared, config);
  const Tensor replaced = prepared.at(kRollout).to(DType::u8);
  const Shape shape = made.at("ids").shape();
  if (replaced.shape() != shape) {
    fail(Code::invalid_argument, "array {} has shape {}, expected {}", kRollout,
         replaced.shape().text(), shape.text());
  }
  const int64_t seq = shape[1], capacity = shape[0] * (seq / 2);
  Tensor at(DType::i32, {capacity}), row(DType::i32, {capacity});
  std::ranges::fill(at.mutable_as<int32_t>(), static_cast<int32_t>(shape.count()));
  size_t count = 0;
  for (int64_t index = 0; index < shape.count(); ++index) {
    const int64_t position = index % seq;
    if (replaced.as<uint8_t>()[static_cast<size_t>(index)] == 0) continue;
    const int64_t source = predicting_position(position, seq, settings);
    if (source < 0 || position >= seq / 2) {
      fail(Code::invalid_argument, "{}[{}, {}] is not a noised token that has a prediction",
           kRollout, index / seq, position);
    }
    at.mutable_as<int32_t>()[count] = static_cast<int32_t>(index);
    row.mutable_as<int32_t>()[count++] = static_cast<int32_t>(index - position + source);
  }
  // Without a row on policy the program has no first pass.
  if (options_.f64("on_policy") == 0 && count == 0) return made;
  made.set(kRolloutAt, at);
  made.set(kRolloutRow, row);
  made.set(kRolloutCount, Tensor::scalar(static_cast<int32_t>(count)));
  return made;
}

// Returns the model's predictions for the rows, i32(rows). The mask token is not predicted unless a
// reference allows it.
graph::Value predicted(model::Builder& builder, graph::Value rows, graph::Value count,
                       int64_t mask_id) {
  graph::Graph& graph = builder.graph();
  const Shape all{rows.dim(0)};
  const model::Head head = model::whole(builder.head(), rows);
  graph::TokenStatisticsInputs inputs;
  inputs.x = rows;
  inputs.weight = head.weight;
  inputs.bias = head.bias;
  inputs.scale = head.scale;
  inputs.softcap = head.softcap;
  inputs.count = count;
  inputs.temperature = graph::full(graph, all, 0.0f);
  inputs.uniform = graph::full(graph, all, 0.0f);
  if (mask_id >= 0 && mask_id < builder.config().vocab_size) {
    Tensor banned(DType::u8, {builder.config().vocab_size});
    banned.mutable_as<uint8_t>()[static_cast<size_t>(mask_id)] = 1;
    inputs.banned = graph::constant(graph, banned);
  }
  return graph::token_statistics(inputs, 1).argmax;
}

Loss DMax::build_loss(model::Builder& builder, const LossInputs& inputs) const {
  if (!inputs.all.contains(kRolloutAt)) return token_ce_loss(builder, inputs);
  const graph::Value ids = inputs.tokens.ids;
  const int64_t tokens = ids.dim(0) * ids.dim(1);
  const graph::Value hidden = graph::stop_gradient(builder.forward(inputs.tokens).hidden);
  const graph::Value rows =
      graph::take(graph::reshape(hidden, {tokens, hidden.dim(2)}), inputs.all.at(kRolloutRow));
  const int64_t chosen = options_.i64("mask_id");
  const int64_t mask = chosen >= 0 ? chosen : builder.config().mask_token_id;
  const graph::Value guesses =
      predicted(builder, rows, inputs.all.at(kRolloutCount), jax() ? -1 : mask);
  const graph::Value replaced =
      graph::scatter_set(graph::reshape(ids, {tokens}), inputs.all.at(kRolloutAt), guesses);
  LossInputs own = inputs;
  own.tokens.ids = graph::reshape(replaced, ids.shape());
  return token_ce_loss(builder, own);
}

Json DMax::describe() const {
  Json made = Objective::describe();
  if (jax()) {
    made["quirks"].push_back("noise, masks and flags of the local batch come from one key per "
                             "batch (dllm-jax, trainers)");
    made["quirks"].push_back("the rollout may predict the mask token (dllm-jax, DMax trainer)");
  }
  return made;
}

} // namespace

ObjectiveEntry objective_files::dmax() {
  std::vector<OptionSpec> keys = shared_objective_options();
  for (OptionSpec& key : keys) {
    if (key.key == "attention")
      key = option_choice("attention", "auto", {"auto"},
                          "Always [noised | clean]: the model decodes block_causal.");
  }
  keys.push_back(
      option_f64("noise_low", 0.75, 0.0, 1.0, "Lowest share of masked tokens of a row."));
  keys.push_back(
      option_f64("noise_high", 0.75, 0.0, 1.0, "Highest share of masked tokens of a row."));
  keys.push_back(option_f64("on_policy", 0.5, 0.0, 1.0,
                            "Share of rows whose masked tokens the model replaces."));
  keys.push_back(option_i64("tail_labels", 0, 0, 1 << 24,
                            "Number of trained padding tokens at the end of a row; 0: padding is "
                            "not trained. DMax has 32."));
  keys.push_back(BlockSteps::option());
  keys.push_back(option_choice(
      "loss_norm", "token", {"token", "sequence", "batch"},
      "What the summed loss is divided by: trainable tokens, the same per text and texts, or "
      "rows."));
  return {"dmax",
          "linear",
          std::move(keys),
          new_objective<DMax>,
          {.rows = RowKind::two_streams,
           .padding = "tail_labels",
           .policy = "spd",
           .sample = R"({"policy": "spd"})"}};
}

} // namespace dllm::noise
