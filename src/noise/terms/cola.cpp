// Latent diffusion as a term of a loss (the auxiliary head Cola of Open-dLLM's fork castlehill).
// Two Perceivers read hidden states of the model: G global latents g, and local ones. With the
// mean of the global latents a matrix makes of them the local latents l. A denoiser with
// a noise level in every block (DiT) sees z = [g; l] with noise at a time t:
//   sum += weight * sum_rows normalizer(row) * mean over latents of |prediction - target|^2
// Nothing is decoded from the latents. With states that are detached the loss falls, too, when all
// latents become equal, so the part cola_std reports how far they differ.

#include "base/error.h"
#include "graph/ops.h"
#include "noise/loss/token_ce.h"
#include "noise/rows/row_normals.h"
#include "noise/terms/cola_head.h"
#include "noise/terms/table.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::noise {
namespace {

using graph::Value;

constexpr const char* kColaTimes = "cola_t";         // f32(batch)
constexpr const char* kColaKeys = "cola_keys";       // u32(batch, 2)
constexpr const char* kColaWeights = "cola_weights"; // f32(batch, latents), sum 1
constexpr uint32_t kColaDraws = 0x636f6c61;

ColaKind cola_kind_of(const std::string& name) {
  if (name == "card") return ColaKind::card;
  return name == "fast_block" ? ColaKind::fast_block : ColaKind::block_causal;
}

class Cola final : public LossTerm {
public:
  explicit Cola(const Options& options) : options_(options) {
    head_.kind = cola_kind_of(options.str("cola_kind"));
    head_.block = options.i64("cola_block");
    head_.predicts_clean = options.str("cola_prediction") == "x0";
    if (options.is_set("cola_tail") && head_.kind != ColaKind::card) {
      fail_with_hint("leave cola_tail out, or set cola_kind = card", Code::invalid_argument,
                     "cola_tail is set, and cola_kind {} counts all latents",
                     options.str("cola_kind"));
    }
    if (options.is_set("cola_block") && head_.kind == ColaKind::card) {
      fail_with_hint("leave cola_block out, or choose another cola_kind", Code::invalid_argument,
                     "cola_block is set, and cola_kind card has no blocks");
    }
  }

  std::map<std::string, Json> new_parts(const model::ModelConfig& base) const override {
    return cola_towers(sizes(base.hidden_size));
  }
  std::vector<std::string> parts() const override {
    return {kColaGlobal, kColaLocal, kColaDenoiser};
  }
  bool reads_states() const override { return true; }
  bool is_prepared(const Batch& prepared) const override { return prepared.has(kColaTimes); }
  void prepare(Batch& prepared, const TermContext& context, const TermDraws& draws) const override;
  void feed(const Batch& prepared, const TermContext& context, Batch& feed) const override;
  Value build(const TermInputs& inputs) const override;

private:
  ColaSizes sizes(int64_t hidden) const {
    ColaSizes made;
    made.hidden = hidden;
    made.global = options_.i64("cola_global");
    made.local = options_.i64("cola_local");
    made.encoder_layers = options_.i64("cola_encoder_layers");
    made.layers = options_.i64("cola_layers");
    made.heads = options_.i64("cola_heads");
    made.encoder_feedforward = made.feedforward = 4 * hidden;
    return made;
  }
  void check_networks(model::Builder& builder) const;
  size_t source(size_t taps) const;

  Options options_;
  ColaHead head_;
};

void Cola::prepare(Batch& prepared, const TermContext&, const TermDraws& draws) const {
  const int64_t batch = prepared.at("ids").shape()[0], count = sizes(1).latents();
  Tensor times(DType::f32, {batch}), weights(DType::f32, {batch, count});
  for (int64_t row = 0; row < batch; ++row) {
    const Key key = fold_in(stream_key(draws.seed, Stream::time, static_cast<uint64_t>(draws.step),
                                       static_cast<uint64_t>(draws.first_row + row)),
                            kColaDraws);
    const float t = uniform_from_bits(random_bits_at(key, 0));
    times.mutable_as<float>()[static_cast<size_t>(row)] = t;
    const int64_t first =
        head_.kind == ColaKind::card ? cola_tail_start(count, t, options_.f64("cola_tail")) : 0;
    std::fill_n(weights.mutable_as<float>().begin() + row * count + first, count - first,
                1.0f / static_cast<float>(count - first));
  }
  prepared.set(kColaTimes, times);
  prepared.set(kColaKeys, row_keys(draws.seed, draws.step, draws.first_row, batch, kColaDraws));
  prepared.set(kColaWeights, weights);
}

// Returns an array of prepared rows, which a caller may have made.
Tensor cola_array(const Batch& prepared, const char* name, DType dtype, const Shape& wanted) {
  const Tensor& array = prepared.at(name);
  if (array.shape() != wanted) {
    fail(Code::invalid_argument, "array {} has shape {}, expected {}", name, array.shape().text(),
         wanted.text());
  }
  if (dtype == DType::f32) check_finite(name, array);
  return array.to(dtype);
}

void Cola::feed(const Batch& prepared, const TermContext&, Batch& feed) const {
  const auto normalizer = feed.at(kNormalizer).as<float>();
  const auto batch = static_cast<int64_t>(normalizer.size()), count = sizes(1).latents();
  feed.set(kColaTimes, cola_array(prepared, kColaTimes, DType::f32, {batch}));
  feed.set(kColaKeys, cola_array(prepared, kColaKeys, DType::u32, {batch, 2}));
  Tensor weights = cola_array(prepared, kColaWeights, DType::f32, {batch, count}).clone();
  const auto all = weights.mutable_as<float>();
  for (size_t i = 0; i < all.size(); ++i) all[i] *= normalizer[i / static_cast<size_t>(count)];
  feed.set(kColaWeights, weights);
}

// Options decide the sizes of new networks alone, so those that the model has must agree.
void Cola::check_networks(model::Builder& builder) const {
  const auto check = [&](const char* part, const char* option, int64_t found) {
    if (found == options_.i64(option)) return;
    fail_with_hint(
        fmt::format("set {} = {}, or train from a model without part {}", option, found, part),
        Code::invalid_argument, "{} is {}, and part {} of the model has {}", option,
        options_.i64(option), part, found);
  };
  const auto config = [&](const char* part) -> const model::ModelConfig& {
    return builder.part(part).config();
  };
  check(kColaGlobal, "cola_global", config(kColaGlobal).tower.latents);
  check(kColaLocal, "cola_local", config(kColaLocal).tower.latents);
  check(kColaGlobal, "cola_encoder_layers", config(kColaGlobal).layers);
  check(kColaLocal, "cola_encoder_layers", config(kColaLocal).layers);
  check(kColaDenoiser, "cola_layers", config(kColaDenoiser).layers);
  check(kColaDenoiser, "cola_heads", config(kColaDenoiser).heads);
}

// Returns the place of the states among `taps`, the embedding and every layer.
size_t Cola::source(size_t taps) const {
  const int64_t wanted = options_.i64("cola_layer"), count = static_cast<int64_t>(taps),
                place = wanted < 0 ? count + wanted : wanted;
  if (place < 0 || place >= count) {
    fail(Code::invalid_argument,
         "cola_layer is {}, and the model has states {} to {} (0: embedding)", wanted, -count,
         count - 1);
  }
  return static_cast<size_t>(place);
}

// Returns, for each row, the deviation of the latents from their mean: 0 when all are equal.
Value latent_deviation(Value latents) {
  const Value apart =
      graph::subtract(latents, graph::broadcast(graph::mean(latents, {1}, true), latents.shape()));
  return graph::sqrt(graph::mean(graph::multiply(apart, apart), {1, 2}));
}

Value Cola::build(const TermInputs& inputs) const {
  check_networks(inputs.builder);
  const auto& arrays = inputs.arrays;
  ColaRows rows;
  rows.states = inputs.student.taps[source(inputs.student.taps.size())];
  if (options_.boolean("cola_detach")) rows.states = graph::stop_gradient(rows.states);
  if (const auto found = arrays.find("segments"); found != arrays.end()) {
    const Value none = graph::scalar_i32(inputs.builder.graph(), 0);
    rows.visible.and_key_keep(graph::not_equal(found->second, none));
  }
  if (const auto found = arrays.find("keys"); found != arrays.end())
    rows.visible.and_key_keep(found->second);
  rows.times = arrays.at(kColaTimes);
  rows.keys = arrays.at(kColaKeys);
  const ColaLatents made = cola_latents(inputs.builder, head_, rows);
  const Value deviation =
      latent_deviation(graph::stop_gradient(graph::concat({made.global, made.local}, 1)));
  const Value count = graph::full(inputs.builder.graph(), deviation.shape(), 1.0f);
  inputs.reported.push_back({"cola_std", graph::sum(deviation, {0}),
                             graph::sum(graph::vary(count, deviation.type().axes), {0})});
  return graph::sum(graph::multiply(made.errors, arrays.at(kColaWeights)), {0, 1});
}

} // namespace

TermEntry term_files::cola() {
  std::vector<OptionSpec> rows;
  rows.push_back(option_f64("cola", 0.0, 0.0, 1e6,
                            "Weight of the diffusion of latents that encode the hidden states; 0: "
                            "none. Trains three networks of its own."));
  rows.push_back(option_choice(
      "cola_kind", "block_causal", {"block_causal", "card", "fast_block"},
      "What latents see: blocks in order; card: those before them, and the last ones count; "
      "fast_block: blocks, each with the latent before it."));
  rows.push_back(option_choice("cola_prediction", "v", {"v", "x0"},
                               "What the denoiser predicts: v, the noise minus the latents, or "
                               "x0, the latents."));
  rows.push_back(option_i64("cola_layer", -3, -1024, 1024,
                            "States that are encoded: 0 is the embedding, 1 the first layer, -1 "
                            "the last."));
  rows.push_back(option_bool("cola_detach", true,
                             "No gradient of the term reaches the states that it encodes."));
  rows.push_back(option_i64("cola_global", 16, 1, 1 << 16, "Latents that every latent sees."));
  rows.push_back(option_i64("cola_local", 64, 1, 1 << 16, "Latents in blocks."));
  rows.push_back(option_i64("cola_block", 16, 1, 1 << 16, "Latents of a block."));
  rows.push_back(option_i64("cola_encoder_layers", 2, 1, 1024, "Layers of both encoders."));
  rows.push_back(option_i64("cola_layers", 4, 1, 1024, "Layers of the denoiser."));
  rows.push_back(option_i64("cola_heads", 8, 1, 1 << 16,
                            "Attention heads of the three networks; a divisor of the width."));
  rows.push_back(option_f64("cola_tail", 0.6, 1e-6, 1e6,
                            "Part of the noised latents that cola_kind card counts."));
  return {.options = std::move(rows), .make = new_term<Cola>};
}

} // namespace dllm::noise
