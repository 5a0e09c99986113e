#include "model/network/filler.h"

#include "base/error.h"
#include "graph/ops.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

namespace dllm::model {
namespace {

using graph::Value;

constexpr float kLogVarLow = -10, kLogVarHigh = 2, kLogSigmaLow = -5, kLogSigmaHigh = 2;

// What the kinds of fillers read. Shapes are (batch, seq) unless a comment says otherwise.
struct FillerInputs {
  Builder& base;
  const ForwardInputs& given;
  Value embedded; // f32(batch, seq, hidden)
  Value is_mask;  // u8
  int64_t batch, seq, hidden;

  graph::Graph& graph() const { return base.graph(); }
  Value i32(int64_t x) const { return graph::scalar_i32(graph(), static_cast<int32_t>(x)); }
  Value f32(double x) const { return graph::scalar(graph(), static_cast<float>(x)); }
  Value places(int64_t width) const { // i32(batch, width)
    return graph::broadcast(graph::iota(graph(), {width}, DType::i32, 0), {batch, width});
  }
};

// The mean, and for a Gaussian filler the logarithm of the standard deviation.
struct FillerResult {
  Value mean, log_sigma;
};

Value clamped(const FillerInputs& inputs, Value x, float low, float high) {
  return graph::clamp(inputs.f32(low), x, inputs.f32(high));
}

FillerResult small_filler(const FillerInputs& inputs) {
  Builder& tower = inputs.base.part(std::string(kFillerPart));
  ForwardInputs pass;
  pass.embeddings = inputs.embedded;
  pass.positions = inputs.given.positions;
  pass.mask = inputs.given.mask;
  return {product(tower.head("delta"), tower.forward(pass).hidden), {}};
}

// --- adapter ---

// Returns i32(batch, 1): the number of given positions at the front.
Value prompt_ends(const FillerInputs& inputs) {
  const Value none = graph::broadcast(inputs.i32(inputs.seq), {inputs.batch, inputs.seq});
  const Value first =
      graph::min(graph::select(inputs.is_mask, inputs.places(inputs.seq), none), {1}, true);
  if (!inputs.given.filler_start.defined()) return first;
  const Value start = graph::reshape(inputs.given.filler_start, {inputs.batch, 1});
  return graph::select(graph::less(start, inputs.i32(0)), first, start);
}

// Returns the mask for positions that have no tokens of their own: a token that may not be seen has
// such a position, too.
graph::Mask without_kept_keys(const graph::Mask& mask) {
  graph::Mask made = mask;
  std::erase_if(made.terms,
                [](const graph::MaskTerm& term) { return term.kind == graph::MaskKind::key_keep; });
  return made;
}

// Hides more keys. A mask has one term of this kind.
void hide_others(graph::Mask& mask, Value keep) {
  for (graph::MaskTerm& term : mask.terms) {
    if (term.kind != graph::MaskKind::key_keep) continue;
    term.params[0] = graph::logical_and(term.params[0], keep);
    return;
  }
  mask.and_key_keep(keep);
}

// Returns x / |x| times `length`, over the last axis.
Value of_length(const FillerInputs& inputs, Value x, double length) {
  const Value squares = graph::sum(graph::multiply(x, x), {x.rank() - 1}, true);
  const Value inverse = graph::rsqrt(graph::maximum(squares, inputs.f32(1e-12)));
  return graph::multiply(graph::multiply(x, inverse), inputs.f32(length));
}

FillerResult adapter_filler(const FillerInputs& inputs) {
  const FillerConfig& filler = inputs.base.config().filler;
  Builder &reader = inputs.base.part("filler_prompt"),
          &writer = inputs.base.part(std::string(kFillerPart));
  const Value places = inputs.places(inputs.seq);
  Value seen = graph::logical_not(inputs.is_mask), positions = places;
  graph::Mask among = without_kept_keys(inputs.given.mask);
  if (filler.reads_prompt) {
    const Value ends = prompt_ends(inputs);
    seen = graph::less(places, ends);
    positions = graph::maximum(graph::subtract(places, ends), inputs.i32(0));
    hide_others(among, graph::logical_not(seen));
  }
  ForwardInputs read;
  read.embeddings = inputs.embedded;
  read.positions = inputs.given.positions;
  read.mask = inputs.given.mask;
  hide_others(read.mask, seen);
  ForwardInputs write;
  const int64_t width = writer.config().hidden_size;
  write.embeddings =
      graph::vary(graph::full(inputs.graph(), {inputs.batch, inputs.seq, width}, 0.0f),
                  inputs.embedded.type().axes);
  write.positions = graph::minimum(positions, inputs.i32(writer.config().max_positions - 1));
  write.mask = among;
  write.context = reader.forward(read).hidden;
  write.context_mask = read.mask;
  const Value hidden = writer.forward(write).hidden;
  FillerResult made{product(writer.head("mean"), hidden), {}};
  if (filler.length > 0) made.mean = of_length(inputs, made.mean, filler.length);
  if (filler.is_gaussian) {
    made.log_sigma =
        clamped(inputs, product(writer.head("log_sigma"), hidden), kLogSigmaLow, kLogSigmaHigh);
  }
  return made;
}

// --- U-Net ---

// Positions of one level: the width of the array, and how many of them each row has.
struct Level {
  int64_t width;
  Value lengths; // i32(batch, 1)
};

// Returns u8(batch, seq), 1 for positions with a token. Rows of a batch are padded at their ends,
// and the result of a row must not depend on it.
Value present(const FillerInputs& inputs) {
  Value made = graph::full(inputs.graph(), {inputs.batch, inputs.seq}, 1.0f);
  const auto both = [&](Value x) { made = graph::multiply(made, graph::convert(x, DType::f32)); };
  for (const graph::MaskTerm& term : inputs.given.mask.terms) {
    if (term.kind == graph::MaskKind::key_limit)
      both(graph::less(inputs.places(inputs.seq), graph::max(term.params[0], {1}, true)));
    if (term.kind == graph::MaskKind::segments) both(graph::greater(term.params[1], inputs.i32(0)));
    if (term.kind == graph::MaskKind::key_keep) both(term.params[0]);
  }
  return made;
}

// Returns u8(batch, width).
Value inside(const FillerInputs& inputs, const Level& level) {
  return graph::less(inputs.places(level.width), level.lengths);
}

// Sets vectors after the end of a row to 0.
Value cut_rows(const FillerInputs& inputs, Value x, const Level& level) {
  const Value keep = graph::convert(inside(inputs, level), DType::f32);
  return graph::multiply(x, graph::reshape(keep, {inputs.batch, level.width, 1}));
}

// Returns the four neighbours 2i - 1 to 2i + 2 of every second vector, (batch, width / 2, 4 size),
// as a convolution with kernel 4, stride 2 and padding 1 reads them.
Value neighbours(const FillerInputs& inputs, Value x, int64_t next) {
  const int64_t width = x.dim(1), size = x.dim(2);
  const Value padded = graph::pad(x, {0, 1, 0}, {0, 2 * next + 1 - width, 0}, inputs.f32(0));
  const Value pairs = graph::reshape(padded, {inputs.batch, next + 1, 2 * size});
  return graph::concat(
      {graph::slice_axis(pairs, 1, 0, next), graph::slice_axis(pairs, 1, 1, next + 1)}, 2);
}

// Interpolates linearly between the vectors of a row, as torch does without align_corners.
Value stretched(const FillerInputs& inputs, Value x, const Level& from, const Level& to) {
  if (from.width == to.width) return x;
  const auto rows = [&](Value lengths) {
    return graph::reshape(graph::convert(lengths, DType::f32), {inputs.batch, 1, 1});
  };
  const Value old_length = rows(from.lengths), new_length = rows(to.lengths);
  const Value target =
      graph::reshape(graph::iota(inputs.graph(), {to.width}, DType::f32, 0), {1, to.width, 1});
  const Value source =
      graph::reshape(graph::iota(inputs.graph(), {from.width}, DType::f32, 0), {1, 1, from.width});
  const Value half = inputs.f32(0.5);
  const Value at = graph::subtract(
      graph::multiply(graph::add(target, half), graph::divide(old_length, new_length)), half);
  const Value last = graph::subtract(old_length, inputs.f32(1));
  const Value place = graph::minimum(graph::maximum(at, inputs.f32(0)), last);
  const Value apart = graph::absolute(graph::subtract(place, source)); // (batch, to, from)
  const Value weights = graph::maximum(graph::subtract(inputs.f32(1), apart), inputs.f32(0));
  return graph::dot(weights, x);
}

Value tower_layer(const FillerInputs& inputs, Builder& tower, Value x, const Level& level) {
  ForwardInputs pass;
  pass.embeddings = x;
  pass.mask.and_key_keep(inside(inputs, level));
  return cut_rows(inputs, tower.forward(pass).hidden, level);
}

std::string level_name(const char* name, int64_t level) {
  return fmt::format("{}_{}{}", kFillerPart, name, level);
}

// Returns a head with a norm before its matrix.
Value normed_head(Builder& tower, const std::string& name, Value x) {
  const std::string norm = "heads." + name + ".norm";
  const auto eps = static_cast<float>(tower.config().norm_eps);
  return product(tower.head(name),
                 graph::layer_norm(x, tower.parameter(norm), tower.parameter(norm + ".bias"), eps));
}

FillerResult unet_filler(const FillerInputs& inputs) {
  const FillerConfig& filler = inputs.base.config().filler;
  const auto part = [&](const char* name, int64_t level) -> Builder& {
    return inputs.base.part(level_name(name, level));
  };
  Level level{inputs.seq, graph::convert(graph::sum(present(inputs), {1}, true), DType::i32)};
  const Level whole = level;
  Value x = cut_rows(inputs, product(part("enc", 0).input("x"), inputs.embedded), level);
  std::vector<Value> skips;
  std::vector<Level> levels;
  for (int64_t i = 0; i < filler.levels; ++i) {
    const int64_t next = std::max<int64_t>(level.width / 2, 1);
    const Value read = neighbours(inputs, x, next);
    const Value two = inputs.i32(2);
    const Value halves =
        graph::divide(graph::subtract(level.lengths, graph::remainder(level.lengths, two)), two);
    level = {next, graph::maximum(halves, inputs.i32(1))};
    Builder& tower = part("enc", i);
    x = tower_layer(inputs, tower, cut_rows(inputs, product(tower.input("conv"), read), level),
                    level);
    skips.push_back(x);
    levels.push_back(level);
  }
  x = tower_layer(inputs, inputs.base.part("filler_mid"), x, level);
  Builder& last = inputs.base.part(std::string(kFillerPart));
  for (int64_t i = filler.levels - 1; i >= 0; --i) {
    const Level& own = levels[static_cast<size_t>(i)];
    x = graph::add(stretched(inputs, x, level, own), skips[static_cast<size_t>(i)]);
    level = own;
    x = tower_layer(inputs, i == 0 ? last : part("dec", i), cut_rows(inputs, x, level), level);
  }
  const Value out = product(last.head("out"), stretched(inputs, x, level, whole));
  FillerResult made{normed_head(last, "mean", out), {}};
  if (filler.is_gaussian) {
    const Value log_var =
        clamped(inputs, normed_head(last, "log_var", out), kLogVarLow, kLogVarHigh);
    made.log_sigma = graph::multiply(log_var, inputs.f32(0.5));
  }
  return made;
}

// --- all kinds ---

// Returns standard normal numbers (Box and Muller 1958), (batch, seq, hidden).
Value normals(const FillerInputs& inputs, Value keys) {
  const Value uniform = graph::random_uniform(keys, {inputs.batch, 2 * inputs.seq, inputs.hidden});
  const Value one = graph::slice_axis(uniform, 1, 0, inputs.seq),
              other = graph::slice_axis(uniform, 1, inputs.seq, 2 * inputs.seq);
  const Value radius =
      graph::sqrt(graph::multiply(inputs.f32(-2), graph::log(graph::subtract(inputs.f32(1), one))));
  return graph::multiply(radius,
                         graph::cos(graph::multiply(other, inputs.f32(2 * std::numbers::pi))));
}

// Returns x, through which gradients are multiplied by `factor`.
Value with_gradient(const FillerInputs& inputs, Value x, float factor) {
  if (factor == 1) return x;
  return graph::add(graph::multiply(x, inputs.f32(factor)),
                    graph::stop_gradient(graph::multiply(x, inputs.f32(1 - factor))));
}

Value drawn(const FillerInputs& inputs, const FillerResult& result) {
  if (!result.log_sigma.defined()) return result.mean;
  Value noise = inputs.given.filler_noise;
  if (!noise.defined() && inputs.given.filler_keys.defined())
    noise = graph::stop_gradient(normals(inputs, inputs.given.filler_keys));
  if (!noise.defined()) return result.mean;
  return graph::add(result.mean, graph::multiply(graph::exp(result.log_sigma), noise));
}

} // namespace

FilledInput fill_masks(Builder& base, const ForwardInputs& given) {
  const ModelConfig& config = base.config();
  if (config.mask_token_id < 0) {
    fail_with_hint("set the model option mask_token", Code::failed_precondition,
                   "the model has a mask filler and no mask token");
  }
  const FillerConfig& filler = config.filler;
  const Value embedded = given.embeddings.defined() ? given.embeddings : base.embed(given.ids);
  const Value mask_id = graph::scalar_i32(base.graph(), static_cast<int32_t>(config.mask_token_id));
  const FillerInputs inputs{base,
                            given,
                            embedded,
                            graph::equal(given.ids, mask_id),
                            embedded.dim(0),
                            embedded.dim(1),
                            embedded.dim(2)};
  const FillerResult result = filler.kind == FillerKind::small  ? small_filler(inputs)
                              : filler.kind == FillerKind::unet ? unet_filler(inputs)
                                                                : adapter_filler(inputs);
  Value vectors = drawn(inputs, result);
  if (filler.scale > 0) vectors = graph::multiply(graph::tanh(vectors), inputs.f32(filler.scale));
  vectors = with_gradient(inputs, vectors, base.filler_gradient());
  Value on = inputs.is_mask; // u8(batch, seq)
  if (given.filler_on.defined()) {
    const Value rows =
        graph::reshape(graph::greater(given.filler_on, inputs.f32(0)), {inputs.batch, 1});
    on = graph::logical_and(on, graph::broadcast(rows, on.shape()));
  }
  const Value changed =
      filler.kind == FillerKind::adapter ? vectors : graph::add(embedded, vectors);
  const Value wide =
      graph::broadcast(graph::reshape(on, {inputs.batch, inputs.seq, 1}), embedded.shape());
  return {graph::select(wide, changed, embedded),
          {graph::convert(on, DType::f32), result.mean, result.log_sigma, vectors}};
}

} // namespace dllm::model
