// Linear attention of Qwen3-Next and Qwen3.5: a short convolution, the gated delta rule
// (delta_rule.h), then a gated norm. value_heads / key_heads neighbouring heads of v share one head
// of q and k. A position sees only the positions before it, under any mask of attention.

#include "base/error.h"
#include "graph/ops.h"
#include "model/layers/delta_rule.h"
#include "model/layers/layer_kind.h"

#include <cmath>

namespace dllm::model {
namespace {

using graph::Value;

void gated_delta_params(ParamTable& table, const ModelConfig& config) {
  const GatedDeltaConfig& delta = config.gated_delta;
  const int64_t hidden = config.hidden_size;
  if (delta.key_heads == 0) {
    fail_with_hint("use a family that has them, as qwen3_5_text", Code::invalid_argument,
                   "family {} has no sizes for layers of kind gated_delta", config.family);
  }
  if (table.has("delta_qkvz")) {
    table.matrix("delta_qkvz", delta.conv_size() + delta.value_size(), hidden);
    table.matrix("delta_ba", 2 * delta.value_heads, hidden);
  } else {
    table.matrix("delta_qkv", delta.conv_size(), hidden);
    table.matrix("delta_z", delta.value_size(), hidden);
    table.matrix("delta_b", delta.value_heads, hidden);
    table.matrix("delta_a", delta.value_heads, hidden);
  }
  table.add("delta_conv", ParamRole::convolution, {delta.conv_size(), delta.width});
  table.add("delta_rate", ParamRole::decay_rate, {delta.value_heads});
  table.add("delta_step", ParamRole::norm, {delta.value_heads});
  table.add("delta_norm", ParamRole::norm, {delta.value_dim});
  table.matrix("delta_out", hidden, delta.value_size());
}

struct DeltaProjections {
  Value qkv;  // (batch, seq, conv_size): all of q, all of k, all of v
  Value z;    // (batch, seq, value_size)
  Value b, a; // (batch, seq, value_heads)
};

// Reorders the rows of Qwen3-Next, which stores the rows of one key head together: q, k, then v and
// z of its value heads.
DeltaProjections split_by_key_head(const GatedDeltaConfig& delta, Value qkvz, Value ba) {
  const int64_t batch = qkvz.dim(0), seq = qkvz.dim(1), group = delta.value_heads / delta.key_heads,
                values = group * delta.value_dim;
  const Value all =
      graph::reshape(qkvz, {batch, seq, delta.key_heads, 2 * delta.key_dim + 2 * values});
  const auto cut = [&](Value x, int64_t begin, int64_t size) {
    return graph::reshape(graph::slice_axis(x, 3, begin, begin + size),
                          {batch, seq, delta.key_heads * size});
  };
  const int64_t first_value = 2 * delta.key_dim;
  const Value pairs = graph::reshape(ba, {batch, seq, delta.key_heads, 2 * group});
  return {graph::concat({cut(all, 0, delta.key_dim), cut(all, delta.key_dim, delta.key_dim),
                         cut(all, first_value, values)},
                        2),
          cut(all, first_value + values, values), cut(pairs, 0, group), cut(pairs, group, group)};
}

DeltaProjections delta_projections(const LayerInputs& inputs, Value x) {
  if (inputs.param("delta_qkvz").defined()) {
    return split_by_key_head(inputs.config.gated_delta, linear_param(inputs, x, "delta_qkvz"),
                             linear_param(inputs, x, "delta_ba"));
  }
  return {linear_param(inputs, x, "delta_qkv"), linear_param(inputs, x, "delta_z"),
          linear_param(inputs, x, "delta_b"), linear_param(inputs, x, "delta_a")};
}

// The facts about rows in the mask of attention.
struct RowTerms {
  Value segments; // i32(batch, seq)
  Value keep;     // u8(batch, seq): 0 for padding, whose inputs become 0
};

RowTerms row_terms(const LayerInputs& inputs, int64_t seq) {
  RowTerms made;
  for (const graph::MaskTerm& term : inputs.mask.terms) {
    if (term.kind == graph::MaskKind::two_stream) {
      fail_with_hint("train with mdlm, llada_sft or ar", Code::unimplemented,
                     "a layer of kind gated_delta reads a row once, and this objective has two "
                     "streams in it");
    }
    if (term.kind == graph::MaskKind::segments) made.segments = term.params[0];
    if (term.kind == graph::MaskKind::key_keep && term.params[0].dim(1) == seq)
      made.keep = term.params[0];
  }
  return made;
}

// Returns heads of q or k, each repeated for the value heads that share it.
Value repeated_heads(const GatedDeltaConfig& delta, Value x) {
  const int64_t batch = x.dim(0), seq = x.dim(1), group = delta.value_heads / delta.key_heads;
  const Value heads = unit_rows(graph::reshape(x, {batch, seq, delta.key_heads, 1, delta.key_dim}));
  return graph::reshape(
      graph::broadcast(heads, {batch, seq, delta.key_heads, group, delta.key_dim}),
      {batch, seq, delta.value_heads, delta.key_dim});
}

Value build_gated_delta(const LayerInputs& inputs, Value x) {
  const GatedDeltaConfig& delta = inputs.config.gated_delta;
  const int64_t batch = x.dim(0), seq = x.dim(1), keys = delta.key_size();
  const RowTerms terms = row_terms(inputs, seq);
  if (terms.keep.defined()) {
    x = graph::multiply(x, graph::reshape(graph::convert(terms.keep, DType::f32), {batch, seq, 1}));
  }
  const DeltaProjections made = delta_projections(inputs, x);
  const Value mixed = graph::silu(causal_convolution(inputs.state->roll("delta_rows", made.qkv),
                                                     inputs.param("delta_conv"), terms.segments));
  const auto cut = [&](int64_t begin, int64_t size) {
    return graph::slice_axis(mixed, 2, begin, begin + size);
  };
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(delta.key_dim)));
  DeltaInputs rule;
  rule.q = graph::multiply(repeated_heads(delta, cut(0, keys)), graph::scalar(*x.graph, scale));
  rule.k = repeated_heads(delta, cut(keys, keys));
  rule.v = graph::reshape(cut(2 * keys, delta.value_size()),
                          {batch, seq, delta.value_heads, delta.value_dim});
  rule.beta = graph::logistic(made.b);
  rule.g =
      graph::negate(graph::multiply(graph::softplus(graph::add(made.a, inputs.param("delta_step"))),
                                    graph::exp(inputs.param("delta_rate"))));
  rule.state = inputs.state->before(*x.graph, "delta", batch);
  rule.length = inputs.state->length();
  rule.segments = terms.segments;
  const DeltaOutputs result = delta_rule(rule);
  if (rule.length.defined()) inputs.state->after("delta", result.state);

  const Value normed = graph::rms_norm(result.out, inputs.param("delta_norm"),
                                       static_cast<float>(inputs.config.norm_eps));
  const Value gated = graph::multiply(graph::reshape(normed, made.z.shape()), graph::silu(made.z));
  return linear_param(inputs, gated, "delta_out");
}

LayerCost gated_delta_cost(const ModelConfig& config) {
  const GatedDeltaConfig& delta = config.gated_delta;
  const auto hidden = static_cast<double>(config.hidden_size),
             values = static_cast<double>(delta.value_size()),
             heads = static_cast<double>(delta.value_heads),
             matrix = static_cast<double>(delta.key_dim * delta.value_dim);
  const double products = static_cast<double>(delta.conv_size()) + 2 * values + 2 * heads;
  return {2 * hidden * products + 6 * heads * matrix, 0}; // per position: two reads, one write
}

std::vector<StateSlot> gated_delta_state(const ModelConfig& config) {
  const GatedDeltaConfig& delta = config.gated_delta;
  return {{"delta", StateKind::snapshot, {delta.value_heads, delta.key_dim, delta.value_dim}},
          {"delta_rows", StateKind::rolling, {delta.width - 1, delta.conv_size()}}};
}

} // namespace

const LayerKind kGatedDelta = {"gated_delta",     LayerPart::mixer, gated_delta_params,
                               build_gated_delta, gated_delta_cost, gated_delta_state};

} // namespace dllm::model
