// Variational flow maps over text (arXiv 2603.07276, as Open-dLLM's fork castlehill trains them).
// A mask filler of kind adapter reads a prompt and gives the input vectors z of the completion. The
// model maps [prompt | z] to tokens in one pass.
//   loss = CE(completion) / (2 tau^2) + CE(prompt) / (2 sigma^2)
//          + beta KL(q(z | prompt) || N(0, I)) + mu_reg (|mu| - r)^2
// Each mean is over the tokens of a row, the KL is a mean over numbers, and r is the mean length of
// the embeddings. With `refinement` some tokens of the completion are visible, as decoding in
// several steps shows them.

#include "base/error.h"
#include "graph/ops.h"
#include "model/network/row_parts.h"
#include "noise/loss/token_ce.h"
#include "noise/objectives/masked.h"
#include "noise/objectives/table.h"
#include "noise/rows/head_rows.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::noise {
namespace {

using graph::Value;

constexpr const char* kMeanWeights = "mean_weights"; // f32(batch, seq): share of a position
constexpr const char* kKlWeight = "kl_weight";       // f32(batch): beta
constexpr const char* kHeadKinds = "head_kinds"; // f32(capacity): 1: of the completion, 2: prompt

class Vfm final : public MaskingObjective {
public:
  Vfm(ScheduleRef schedule, const Options& options)
      : MaskingObjective(std::move(schedule), options) {}
  const std::string& name() const override { return name_; }
  std::vector<std::string> trained_parts() const override {
    return {options_.boolean("train_base") ? std::string(model::kBasePart)
                                           : std::string(model::kFillerPart)};
  }
  Batch prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                     const PrepareContext& context) const override;

protected:
  std::vector<std::string> prepared_arrays() const override {
    return {kMeanWeights, kKlWeight, kFillerStart};
  }
  Batch feed_rows(const Batch& prepared, const model::ModelConfig& config) const override;
  Loss build_loss(model::Builder& builder, const LossInputs& inputs) const override;

private:
  // One row on its way to the arrays of the loss.
  struct Row {
    const TokenRows& rows;
    int64_t number;
    float prefix_draw, ratio_draw;
    std::span<const float> draws; // of each position
    int32_t mask;
    int shift;
  };
  int64_t prompt_of(const Row& row) const;
  void fill_row(const Row& row, int64_t prompt, TokenCeArrays& made, Tensor& mean_weights) const;
  double kl_weight(int64_t step, bool held_out) const;
  void add_mean_parts(Loss& loss, model::Builder& builder, const LossInputs& inputs) const;

  std::string name_ = "vfm";
};

int64_t text_length(const TokenRows& rows, int64_t row) {
  int64_t length = rows.seq;
  while (length > 0 && !rows.segments.empty() &&
         rows.segments[static_cast<size_t>(row * rows.seq + length - 1)] == 0)
    --length;
  return length;
}

// Returns the length of the prompt: the given tokens at the front, else a random prefix.
int64_t Vfm::prompt_of(const Row& row) const {
  const int64_t first = row.number * row.rows.seq, length = text_length(row.rows, row.number);
  int64_t given = 0;
  while (given < length && !row.rows.trainable(first + given)) ++given;
  const bool is_first_alone = given == 1 && row.rows.first_is_given;
  if (given > 0 && !is_first_alone) return given;
  if (length < 2) return given;
  const auto more = static_cast<int64_t>(row.prefix_draw * static_cast<float>(length - 1));
  return std::min(1 + more, length - 1);
}

void Vfm::fill_row(const Row& row, int64_t prompt, TokenCeArrays& made,
                   Tensor& mean_weights) const {
  const auto seq = static_cast<size_t>(row.rows.seq);
  const auto begin = static_cast<size_t>(row.number) * seq;
  const auto ids = made.ids.mutable_as<int32_t>().subspan(begin, seq);
  const auto targets = made.targets.mutable_as<int32_t>().subspan(begin, seq);
  const auto weights = made.weights.mutable_as<float>().subspan(begin, seq);
  const auto means = mean_weights.mutable_as<float>().subspan(begin, seq);
  const auto length = static_cast<size_t>(text_length(row.rows, row.number)),
             start = static_cast<size_t>(prompt);
  const bool refines = options_.boolean("refinement");
  int64_t data = 0;
  for (size_t i = start; i < length; ++i) {
    means[i] = 1.0f / static_cast<float>(length - start);
    if (!row.rows.trainable(static_cast<int64_t>(begin + i))) continue;
    if (refines && row.draws[i] < row.ratio_draw) continue; // it is visible
    ids[i] = row.mask;
    targets[i] = row.rows.ids[begin + i];
    ++data;
  }
  const auto observed_from = static_cast<size_t>(row.shift);
  for (size_t i = observed_from; i < start; ++i) targets[i] = row.rows.ids[begin + i];
  const auto weight = [&](const char* option, int64_t count) {
    const double deviation = options_.f64(option);
    return static_cast<float>(1 / (2 * deviation * deviation * static_cast<double>(count)));
  };
  const int64_t observed = prompt - row.shift;
  for (size_t i = 0; i < length; ++i) {
    if (targets[i] < 0) continue;
    weights[i] = i < start ? weight("sigma", observed) : weight("tau", data);
  }
  made.normalizer.mutable_as<float>()[static_cast<size_t>(row.number)] = data > 0 ? 1.0f : 0.0f;
}

double Vfm::kl_weight(int64_t step, bool held_out) const {
  const int64_t warmup = options_.i64("kl_warmup");
  const double weight = options_.f64("kl_weight");
  if (held_out || step >= warmup) return weight;
  return weight * static_cast<double>(step) / static_cast<double>(warmup);
}

Batch Vfm::prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                        const PrepareContext& context) const {
  const TokenRows rows = token_rows(batch, context.vocab, context.shift == 1);
  const int64_t first = batch.global_rows(rows.batch).first;
  std::vector<float> draws = mask_draws(rows.batch, rows.seq, first, seed, step);
  std::vector<float> of_rows = mask_draws(rows.batch, rows.seq + 2, first, seed, step);
  std::vector<float> ratios;
  for (int64_t b = 0; b < rows.batch; ++b)
    ratios.push_back(of_rows[static_cast<size_t>(b * (rows.seq + 2) + rows.seq)]);
  inject_draws(batch, "u_mask", draws);
  inject_draws(batch, "u_t", ratios);
  TokenCeArrays made(rows.batch, rows.seq, rows.ids);
  Tensor means(DType::f32, {rows.batch, rows.seq}), beta(DType::f32, {rows.batch}),
      starts(DType::i32, {rows.batch});
  for (int64_t b = 0; b < rows.batch; ++b) {
    const auto at = static_cast<size_t>(b);
    const Row row{
        rows,
        b,
        of_rows[static_cast<size_t>((b + 1) * (rows.seq + 2) - 1)],
        ratios[at],
        std::span(draws).subspan(at * static_cast<size_t>(rows.seq), static_cast<size_t>(rows.seq)),
        mask_id(context),
        context.shift};
    const int64_t prompt = prompt_of(row);
    fill_row(row, prompt, made, means);
    starts.mutable_as<int32_t>()[at] = static_cast<int32_t>(prompt);
    beta.mutable_as<float>()[at] = static_cast<float>(kl_weight(step, context.held_out));
    made.t.mutable_as<float>()[at] = 1;
  }
  Batch prepared = made.added_to(batch);
  prepared.remove("keep"); // tokens of the prompt are targets, too
  prepared.set(kMeanWeights, means);
  prepared.set(kKlWeight, beta);
  prepared.set(kFillerStart, starts);
  set_timesteps(prepared, made.t, context);
  return prepared;
}

Batch Vfm::feed_rows(const Batch& prepared, const model::ModelConfig& config) const {
  const TokenCeSettings settings = token_ce_settings(prepared, config);
  const model::TokenBatch rows =
      model::parse_tokens(prepared, model::token_rules(model::TokenUse::loss, config));
  Batch feed = token_ce_feed(rows, settings);
  // The same entries, with their kind in place of their weight.
  model::TokenBatch kinds = rows;
  kinds.weights = rows.weights.clone();
  const auto starts = prepared.at(kFillerStart).to(DType::i32);
  for (int64_t i = 0; i < kinds.weights.count(); ++i) {
    float& weight = kinds.weights.mutable_as<float>()[static_cast<size_t>(i)];
    const int32_t start = starts.as<int32_t>()[static_cast<size_t>(i / rows.seq)];
    if (weight != 0) weight = i % rows.seq < start ? 2.0f : 1.0f;
  }
  feed.set(kHeadKinds, token_ce_feed(kinds, settings).at(kHeadWeights));
  feed.set(kMeanWeights, prepared.at(kMeanWeights).to(DType::f32));
  feed.set(kKlWeight, prepared.at(kKlWeight).to(DType::f32));
  return feed;
}

// Returns the mean length of the embeddings. No gradient flows into it.
Value length_of_embeddings(model::Builder& builder) {
  const model::Linear table = builder.linear("embedding");
  if (table.partition.cuts() || table.weight.dtype() != DType::f32) {
    fail_with_hint(
        "set embedding_length", Code::unimplemented,
        "the embedding is cut over ranks or is not f32, so its mean length is not known");
  }
  const Value rows = graph::stop_gradient(table.weight);
  const Value lengths = graph::sqrt(graph::sum(graph::multiply(rows, rows), {1}));
  return graph::multiply(
      graph::mean(lengths, {0}),
      graph::scalar(builder.graph(), static_cast<float>(builder.config().embedding_scale)));
}

// Adds the divergence and the regularization of the means.
void Vfm::add_mean_parts(Loss& loss, model::Builder& builder, const LossInputs& inputs) const {
  const model::FilledMasks& filled = builder.filled();
  if (!filled.at.defined()) {
    fail_with_hint("set filler to adapter", Code::invalid_argument,
                   "objective vfm trains a mask filler, and the model has none");
  }
  graph::Graph& graph = builder.graph();
  const Value shares = inputs.all.at(kMeanWeights), one = graph::scalar(graph, 1.0f);
  const auto add_part = [&](const char* name, Value of_rows, Value weight) {
    if (weight.defined())
      loss.sum = graph::add(loss.sum, graph::sum(graph::multiply(of_rows, weight), {0}));
    loss.parts.push_back({name, graph::stop_gradient(graph::sum(of_rows, {0})), loss.normalizer});
  };
  const auto row_means = [&](Value of_positions) { // (batch, seq) -> (batch)
    return graph::multiply(graph::sum(graph::multiply(of_positions, shares), {1}),
                           inputs.normalizer);
  };
  const Value squares = graph::multiply(filled.mean, filled.mean);
  if (filled.log_sigma.defined()) {
    const Value two = graph::scalar(graph, 2.0f);
    const Value doubled = graph::multiply(filled.log_sigma, two);
    const Value numbers =
        graph::subtract(graph::add(squares, graph::exp(doubled)), graph::add(doubled, one));
    const Value kl = graph::divide(graph::mean(numbers, {2}), two);
    add_part("kl", row_means(kl), inputs.all.at(kKlWeight));
  }
  const Value least = graph::scalar(graph, 1e-12f);
  const Value lengths = graph::sqrt(graph::add(graph::sum(squares, {2}), least));
  add_part("mean_norm", row_means(lengths), {});
  const double known = options_.f64("embedding_length");
  if (options_.f64("mu_reg") == 0 && known == 0) return;
  const Value wanted =
      known > 0 ? graph::scalar(graph, static_cast<float>(known)) : length_of_embeddings(builder);
  const Value apart = graph::subtract(lengths, wanted);
  add_part("regularization", row_means(graph::multiply(apart, apart)),
           graph::scalar(graph, static_cast<float>(options_.f64("mu_reg"))));
}

// Returns the likeliest token of each row.
Value likeliest(const model::Head& head, Value rows) {
  const HeadOfRows heads[] = {{model::whole(head, rows), rows}};
  const auto body = [](std::span<const Value> logits, std::span<const Value>) {
    return std::vector{graph::convert(graph::argmax(logits[0], 1), DType::f32)};
  };
  return over_head_rows("likeliest", heads, {}, body)[0];
}

// Returns the share of neighbouring predictions of a completion that are equal.
Loss::Part repetition(model::Builder& builder, const LossInputs& inputs, Value rows) {
  graph::Graph& graph = builder.graph();
  const Value tokens = likeliest(builder.head(), graph::stop_gradient(rows));
  const int64_t count = tokens.dim(0);
  const auto left = [&](Value x) { return graph::slice_axis(x, 0, 0, count - 1); };
  const auto right = [&](Value x) { return graph::slice_axis(x, 0, 1, count); };
  const auto is = [](Value x) { return graph::convert(x, DType::f32); };
  const Value one = graph::scalar(graph, 1.0f), next = graph::scalar_i32(graph, 1);
  const Value kinds = inputs.all.at(kHeadKinds), places = inputs.head_rows;
  const Value pairs = graph::multiply(
      graph::multiply(is(graph::equal(left(kinds), one)), is(graph::equal(right(kinds), one))),
      is(graph::equal(graph::add(left(places), next), right(places))));
  const Value equal = graph::multiply(pairs, is(graph::equal(left(tokens), right(tokens))));
  return {"repetition", graph::sum(equal, {0}), graph::sum(pairs, {0})};
}

Loss Vfm::build_loss(model::Builder& builder, const LossInputs& inputs) const {
  const Value hidden = builder.forward(inputs.tokens).hidden; // (batch, seq, hidden)
  const Value flat = graph::reshape(hidden, {hidden.dim(0) * hidden.dim(1), hidden.dim(2)});
  const int64_t ranks = builder.sequence_ranks();
  const auto own = [&](Value x) { return model::dealt_rows(x, ranks); };
  const auto total = [&](Value of_rows) {
    const Value sum = graph::sum(of_rows, {0});
    return ranks == 1 ? sum : graph::all_reduce(sum, graph::AxisSet(graph::Axis::sequence));
  };
  const Value rows = graph::take(flat, own(inputs.head_rows));
  const Value nll = model::cross_entropy(builder.head(), rows, own(inputs.head_targets),
                                         model::dealt_count(inputs.head_count, ranks));
  Loss loss;
  loss.sum = total(graph::multiply(nll, own(inputs.head_weights)));
  loss.normalizer = graph::sum(inputs.normalizer, {0});
  const Value kinds = own(inputs.all.at(kHeadKinds));
  for (const auto& [part, kind] : {std::pair{"data", 1.0f}, std::pair{"observed", 2.0f}}) {
    const Value is_kind =
        graph::convert(graph::equal(kinds, graph::scalar(builder.graph(), kind)), DType::f32);
    loss.parts.push_back(
        {part, total(graph::stop_gradient(graph::multiply(nll, is_kind))), total(is_kind)});
  }
  add_mean_parts(loss, builder, inputs);
  if (options_.boolean("report_repetition") && ranks == 1 && rows.dim(0) > 1)
    loss.parts.push_back(repetition(builder, inputs, rows));
  return loss;
}

std::vector<OptionSpec> vfm_options() {
  std::vector<OptionSpec> keys = shared_objective_options();
  option_of(keys, "filler").default_value = std::string("adapter");
  option_of(keys, "filler_alpha").default_value = 1.0;
  option_of(keys, "filler_context").default_value = std::string("prompt");
  keys.push_back(option_bool("train_base", false,
                             "The model, or its adapters, are trained next to the filler."));
  keys.push_back(option_f64("tau", 1.0, 1e-6, 1e6,
                            "Deviation of the completion: its loss is divided by 2 tau^2."));
  keys.push_back(option_f64("sigma", 1.0, 1e-6, 1e6,
                            "Deviation of the prompt: its loss is divided by 2 sigma^2."));
  keys.push_back(option_f64("kl_weight", 0.01, 0.0, 1e6,
                            "Weight of the divergence of the filler from a standard normal."));
  keys.push_back(option_i64("kl_warmup", 0, 0, int64_t{1} << 40,
                            "Updates in which the weight of the divergence grows from 0."));
  keys.push_back(option_f64("mu_reg", 0.0, 0.0, 1e6,
                            "Weight of the squared distance of the means' lengths from the mean "
                            "length of the embeddings."));
  keys.push_back(
      option_f64("embedding_length", 0.0, 0.0, 1e6, "That mean length; 0: it is computed."));
  keys.push_back(option_bool("refinement", false,
                             "A random part of each completion is visible, as decoding in several "
                             "steps shows it."));
  keys.push_back(option_bool("report_repetition", true,
                             "The parts of the loss have the share of equal neighbouring "
                             "predictions."));
  return keys;
}

} // namespace

ObjectiveEntry objective_files::vfm() {
  return {
      "vfm",
      "linear",
      vfm_options(),
      new_objective<Vfm>,
      {.packs = false, .sample = R"({"policy": "threshold", "threshold": 0.9, "temperature": 0})"}};
}

} // namespace dllm::noise
