// DiffusionGemma (Google 2026; the published scheme, NVIDIA NeMo Automodel). A row is [clean text |
// canvas]. The clean text is causal. The canvas is one block that sees itself and the clean text
// before it. It holds a randomly chosen block of the answer, whose tokens are uniform noise with
// probability t.
// The loss is the cross entropy of all tokens of the block, noise or not, without a weight of t.
// The same pass adds the cross entropy of the next tokens of the clean text. Per row it is
//   1 / tokens of the block * sum CE_block + ar_weight / next tokens * sum CE_next,
// and rows are weighted by their tokens.
// With probability `conditioned` the canvas is computed twice. The second pass reads the mean
// embedding of the first pass's predictions, which has no gradient (self-conditioning, Chen et al.
// 2022). Decoding does the same from its second step on.

#include "base/error.h"
#include "graph/ops.h"
#include "noise/loss/token_ce.h"
#include "noise/objectives/table.h"
#include "noise/rows/canvas_rows.h"
#include "noise/rows/two_stream.h"

namespace dllm::noise {
namespace {

// Arrays of a prepared batch and of the graph.
constexpr const char* kContext = "canvas_context";  // i32(batch): clean tokens that the canvas sees
constexpr const char* kConditioned = "conditioned"; // f32(batch): 1: the canvas is computed twice
constexpr const char* kStart = "canvas_start";      // i32(batch): first position of the canvas
// i32(batch * block): the positions of the canvas in all rows.
constexpr const char* kRows = "canvas_rows";

class DiffusionGemma final : public Objective {
public:
  DiffusionGemma(ScheduleRef schedule, const Options& options)
      : Objective(std::move(schedule), options), times_(options_) {}
  const std::string& name() const override { return name_; }
  bool needs_mask_id() const override { return false; }
  bool spreads_over_rows() const override { return times_.spreads(); }
  Batch prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                     const PrepareContext& context) const override;
  int shift(const model::ModelConfig&) const override { return 0; }
  Batch feed_rows(const Batch& prepared, const model::ModelConfig& config) const override;

protected:
  std::vector<std::string> prepared_arrays() const override { return {kContext, kConditioned}; }
  // Rows have their own attention mask and positions.
  std::vector<std::string> raw_arrays() const override { return {"t"}; }
  Loss build_loss(model::Builder& builder, const LossInputs& inputs) const override;

private:
  std::string name_ = "diffusion_gemma";
  TimeSampler times_;
};

Batch DiffusionGemma::prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                                   const PrepareContext& context) const {
  const int64_t block = needed_block_length(*this, context);
  const TokenRows rows = token_rows(batch, context.vocab, false);
  if (context.vocab < 2 || options_.i64("fill_token") >= context.vocab) {
    fail(Code::invalid_argument,
         "the vocabulary has {} tokens, expected at least 2 and more than fill_token {}",
         context.vocab, options_.i64("fill_token"));
  }
  const CanvasDraws drawn = canvas_draws(rows, block, batch, times_, seed, step);
  std::vector<float> levels;
  for (const float draw : drawn.time) levels.push_back(times_.time(draw));
  inject_draws(batch, "t", levels);
  const CanvasNoise noise{context.vocab, options_.i64("fill_token")};
  CanvasRows made(rows, block);
  for (int64_t b = 0; b < rows.batch; ++b) {
    const auto row = static_cast<size_t>(b);
    const Answer answer = answer_of(rows, b);
    made.t.mutable_as<float>()[row] = levels[row];
    made.conditioned.mutable_as<float>()[row] =
        drawn.coin[row] < options_.f64("conditioned") ? 1.0f : 0.0f;
    const int64_t counted = made.fill_canvas(rows, b, answer, drawn, noise);
    made.normalizer.mutable_as<float>()[row] = static_cast<float>(counted);
    const double next = context.held_out ? 0 : options_.f64("ar_weight");
    made.train_text(rows, b, answer, next * static_cast<double>(counted));
  }
  Batch prepared = batch;
  for (const char* name : {"keep", "labels", "segments"}) prepared.remove(name);
  prepared.set("ids", made.ids);
  prepared.set("targets", made.targets);
  prepared.set("weights", made.weights);
  prepared.set("positions", made.positions);
  prepared.set("keys", made.keys);
  prepared.set("normalizer", made.normalizer);
  prepared.set("t", made.t);
  prepared.set(kContext, made.context);
  prepared.set(kConditioned, made.conditioned);
  return prepared;
}

Batch DiffusionGemma::feed_rows(const Batch& prepared, const model::ModelConfig& config) const {
  if (!config.canvas) {
    fail_with_hint("take a model of the family diffusion_gemma", Code::failed_precondition,
                   "objective diffusion_gemma needs a model with a canvas");
  }
  Batch made = Objective::feed_rows(prepared, config);
  const Shape shape = made.at("ids").shape();
  const int64_t block = block_length(config), start = shape[1] - block;
  const Tensor context = prepared.at(kContext).to(DType::i32);
  const Tensor conditioned = prepared.at(kConditioned).to(DType::f32);
  if (start < 1 || context.shape() != Shape{shape[0]} || conditioned.shape() != Shape{shape[0]}) {
    fail(Code::invalid_argument,
         "ids {} with blocks of {}, {} {} and {} {}: expected longer rows and ({}) twice",
         shape.text(), block, kContext, context.shape().text(), kConditioned,
         conditioned.shape().text(), shape[0]);
  }
  check_between(kContext, context, 0, start, "the clean text");
  check_unit(kConditioned, conditioned);
  Tensor rows(DType::i32, {shape[0] * block});
  for (int64_t i = 0; i < rows.count(); ++i) {
    rows.mutable_as<int32_t>()[static_cast<size_t>(i)] =
        static_cast<int32_t>(i / block * shape[1] + start + i % block);
  }
  made.set(kStart,
           Tensor::from(Shape{shape[0]}, std::vector<int32_t>(static_cast<size_t>(shape[0]),
                                                              static_cast<int32_t>(start))));
  made.set(kRows, rows);
  made.set(kContext, context);
  made.set(kConditioned, conditioned);
  return made;
}

Loss DiffusionGemma::build_loss(model::Builder& builder, const LossInputs& inputs) const {
  if (builder.sequence_ranks() > 1) {
    fail_with_hint("leave axis sequence out of the mesh", Code::unimplemented,
                   "objective diffusion_gemma does not cut positions over ranks");
  }
  model::ForwardInputs tokens = inputs.tokens;
  tokens.mask = graph::Mask::full(); // the mask follows from the canvas
  tokens.mask.and_key_keep(inputs.all.at("keys"));
  tokens.canvas_start = inputs.all.at(kStart);
  tokens.canvas_context = inputs.all.at(kContext);
  // The first pass predicts the canvas without conditioning.
  const graph::Value hidden = builder.forward(tokens).hidden;
  const int64_t batch = hidden.dim(0), seq = hidden.dim(1), width = hidden.dim(2);
  const graph::Value canvas = inputs.all.at(kRows);
  const int64_t block = canvas.dim(0) / batch;
  const graph::Value logits = builder.logits(
      graph::take(graph::reshape(hidden, {batch * seq, width}), canvas)); // (batch * block, vocab)
  const graph::Value mean = builder.mean_embedding(graph::stop_gradient(logits));
  const graph::Value share = graph::reshape(
      graph::broadcast(graph::reshape(inputs.all.at(kConditioned), {batch, 1}), {batch, block}),
      {batch * block, 1});
  const graph::Value none = graph::full(builder.graph(), {batch * seq, width}, 0.0f);
  tokens.conditioning = graph::reshape(
      graph::scatter_set(none, canvas, graph::multiply(mean, share)), {batch, seq, width});
  LossInputs second = inputs;
  second.tokens = tokens;
  return token_ce_loss(builder, second);
}

} // namespace

ObjectiveEntry objective_files::diffusion_gemma() {
  std::vector<OptionSpec> keys = shared_objective_options();
  for (OptionSpec& row : time_options()) keys.push_back(std::move(row));
  keys.push_back(option_f64("ar_weight", 1.0, 0.0, 1e3,
                            "Weight of the next tokens of the clean text, prompt included."));
  keys.push_back(option_f64("conditioned", 0.5, 0.0, 1.0,
                            "Share of rows whose canvas is conditioned on its own predictions of a "
                            "pass without a gradient."));
  keys.push_back(
      option_i64("fill_token", -1, -1, 1 << 30,
                 "Token that fills the last block of an answer, because decoding continues to the "
                 "end of a canvas; -1: the block ends with the answer."));
  return {"diffusion_gemma",
          "linear",
          std::move(keys),
          new_objective<DiffusionGemma>,
          {.rows = RowKind::canvas,
           .packs = false,
           .shift = 0,
           .model = "canvas",
           .policy = "diffusion_gemma",
           .sample = R"({"policy": "diffusion_gemma", "denoising_steps": 16})"}};
}

} // namespace dllm::noise
