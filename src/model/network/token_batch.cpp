#include "model/network/token_batch.h"

#include "base/error.h"
#include "tensor/batch.h"

#include <algorithm>

namespace dllm::model {
namespace {

constexpr const char* kSameVocabulary = "the tokenizer and the model must have the same vocabulary";

// Returns one array of this shape, converted; undefined when the batch does not have it.
Tensor optional_array(const Batch& batch, const char* name, DType dtype, const Shape& shape) {
  const Tensor* found = batch.find(name);
  if (found == nullptr) return {};
  const bool fits = is_float(dtype) || !is_float(found->dtype());
  if (found->shape() != shape || !fits) {
    fail(Code::invalid_argument, "array {} is {}{}, expected {}{}", name,
         dtype_name(found->dtype()), found->shape().text(), dtype_name(dtype), shape.text());
  }
  return found->to(dtype);
}

Tensor optional_between(const Batch& batch, const char* name, DType dtype, const Shape& shape,
                        int64_t low, int64_t high, const char* bound, const char* hint = "") {
  Tensor array = optional_array(batch, name, dtype, shape);
  if (array.defined()) check_between(name, array, low, high, bound, hint);
  return array;
}

Tensor optional_finite(const Batch& batch, const char* name, const Shape& shape) {
  Tensor array = optional_array(batch, name, DType::f32, shape);
  if (array.defined()) check_finite(name, array);
  return array;
}

void need(const Batch& batch, const char* name) {
  batch.at(name);
}

// Parses ids or embeddings, and sets batch and seq.
void parse_input(const Batch& batch, const TokenRules& rules, TokenBatch& made) {
  const bool embedded = rules.use == TokenUse::model_input && batch.has("embeddings");
  const char* name = embedded ? "embeddings" : "ids";
  const Shape& shape = batch.at(name).shape();
  // Rows without tokens would still take memory per row.
  if (shape.rank() != (embedded ? 3 : 2) || shape.count() == 0) {
    fail(Code::invalid_argument, "array {} has shape {}, expected {} and no empty axis", name,
         shape.text(), embedded ? "(batch, seq, hidden)" : "(batch, seq)");
  }
  made.batch = shape[0];
  made.seq = shape[1];
  if (made.batch * made.seq > INT32_MAX) { // rows of the head are numbered by i32
    fail_with_hint("take smaller batches", Code::invalid_argument,
                   "array {} has {} tokens, more than {}", name, made.batch * made.seq, INT32_MAX);
  }
  if (embedded) {
    made.embeddings = optional_finite(batch, name, {made.batch, made.seq, rules.hidden});
    return;
  }
  made.ids = optional_array(batch, name, DType::i32, shape);
  if (rules.vocab > 0)
    check_between(name, made.ids, 0, rules.vocab - 1, "the vocabulary", kSameVocabulary);
}

void parse_positions(const Batch& batch, const TokenRules& rules, TokenBatch& made) {
  const int64_t limit = rules.position_limit > 0 ? rules.position_limit : INT32_MAX;
  made.positions = optional_between(batch, "positions", DType::i32, {made.batch, made.seq}, 0,
                                    limit - 1, "the positions of the model");
  if (made.positions.defined() || made.seq <= limit) return;
  fail_with_hint("cut the rows, or give positions", Code::invalid_argument,
                 "ids has rows of {} tokens, the model has {} positions", made.seq, limit);
}

Tensor parse_mask(const Batch& batch, const TokenBatch& rows) {
  const Tensor* given = batch.find("mask");
  const Shape one{1, rows.seq, rows.seq};
  const bool shared = given != nullptr && given->shape() == one;
  const Shape shape = shared ? one : Shape{rows.batch, rows.seq, rows.seq};
  return optional_between(batch, "mask", DType::u8, shape, 0, 1, "1: may be seen");
}

void parse_training(const Batch& batch, const TokenRules& rules, TokenBatch& made) {
  const Shape rows{made.batch, made.seq};
  if (rules.use == TokenUse::raw_rows) {
    made.keep = optional_between(batch, "keep", DType::u8, rows, 0, 1, "1: given");
    made.labels = optional_array(batch, "labels", DType::i32, rows);
    return;
  }
  need(batch, "targets");
  need(batch, "weights");
  made.targets = optional_between(batch, "targets", DType::i32, rows, -1,
                                  rules.vocab > 0 ? rules.vocab - 1 : INT32_MAX,
                                  "the vocabulary, -1: none", kSameVocabulary);
  made.weights = optional_finite(batch, "weights", rows);
  made.normalizer = optional_finite(batch, "normalizer", {made.batch});
}

// Repeats the mask for each row.
Tensor repeated(const Tensor& mask, int64_t batch) {
  if (mask.shape()[0] == batch) return mask;
  Tensor all(DType::u8, mask.shape().with_dim(0, batch));
  const auto from = mask.as<uint8_t>();
  const auto to = all.mutable_as<uint8_t>();
  for (size_t begin = 0; begin < to.size(); begin += from.size())
    std::ranges::copy(from, to.subspan(begin).begin());
  return all;
}

Tensor two_stream_positions(int64_t batch, int64_t seq) {
  Tensor positions(DType::i32, {batch, seq});
  const auto out = positions.mutable_as<int32_t>();
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<int32_t>(static_cast<int64_t>(i) % seq % (seq / 2));
  return positions;
}

void add_blocks(const TokenBatch& rows, AttentionKind attention, int64_t block, Batch& arrays) {
  const bool two = attention == AttentionKind::two_stream;
  if (!two && attention != AttentionKind::block_causal) return;
  if (block <= 0) {
    fail_with_hint("set block_length, or \"dllm\": {\"block_length\"} in config.json",
                   Code::failed_precondition, "{} attention needs a block length",
                   attention_name(attention));
  }
  arrays.set("block", Tensor::scalar(static_cast<int32_t>(block)));
  if (!two) return;
  if (rows.seq % 2 != 0) {
    fail(Code::invalid_argument, "two_stream attention needs rows of even length, found {}",
         rows.seq);
  }
  arrays.set("length", Tensor::scalar(static_cast<int32_t>(rows.seq / 2)));
}

} // namespace

TokenRules token_rules(TokenUse use, const ModelConfig& config) {
  return {use, config.vocab_size, config.position_limit(), config.hidden_size,
          config.time_conditioning};
}

TokenBatch parse_tokens(const Batch& batch, const TokenRules& rules) {
  TokenBatch made;
  parse_input(batch, rules, made);
  const Shape rows{made.batch, made.seq};
  made.segments = optional_between(batch, "segments", DType::i32, rows, 0, INT32_MAX, "0: padding");
  if (rules.use != TokenUse::model_input) parse_training(batch, rules, made);
  if (rules.use == TokenUse::raw_rows) return made; // the rest is parsed with the noise
  parse_positions(batch, rules, made);
  made.keys = optional_between(batch, "keys", DType::u8, rows, 0, 1, "1: may be seen");
  made.limit =
      optional_between(batch, "limit", DType::i32, rows, 0, made.seq, "the length of a row");
  made.mask = parse_mask(batch, made);
  if (rules.time_conditioning) {
    need(batch, "timesteps");
    made.timesteps = optional_finite(batch, "timesteps", {made.batch});
  }
  return made;
}

Batch input_arrays(const TokenBatch& rows, AttentionKind attention, int64_t block) {
  Batch arrays;
  const auto add = [&](const char* name, const Tensor& array) {
    if (array.defined()) arrays.set(name, array);
  };
  add("embeddings", rows.embeddings);
  add("ids", rows.ids);
  add("positions", rows.positions);
  add("segments", rows.segments);
  add("keys", rows.keys);
  add("limit", rows.limit);
  if (rows.mask.defined()) arrays.set("mask", repeated(rows.mask, rows.batch));
  add("timesteps", rows.timesteps);
  add_blocks(rows, attention, block, arrays);
  if (attention == AttentionKind::two_stream && !rows.positions.defined())
    arrays.set("positions", two_stream_positions(rows.batch, rows.seq));
  return arrays;
}

graph::Mask make_mask(AttentionKind kind, graph::Value block, graph::Value length) {
  const auto need = [&](graph::Value value, const char* what) {
    if (!value.defined())
      fail(Code::invalid_argument, "{} attention needs a {}", attention_name(kind), what);
  };
  switch (kind) {
  case AttentionKind::bidirectional: return graph::Mask::full();
  case AttentionKind::causal: return graph::Mask::causal();
  case AttentionKind::block_causal:
    need(block, "block length");
    return graph::Mask::block_causal(block);
  case AttentionKind::two_stream:
    need(block, "block length");
    need(length, "length");
    return graph::Mask::two_stream(length, block);
  case AttentionKind::automatic: break;
  }
  fail(Code::invalid_argument, "attention auto must be resolved before a graph is built");
}

ForwardInputs forward_inputs(const std::map<std::string, graph::Value>& arrays,
                             AttentionKind attention, bool empty_average) {
  const auto optional = [&](const char* name) {
    const auto found = arrays.find(name);
    return found == arrays.end() ? graph::Value{} : found->second;
  };
  ForwardInputs inputs;
  inputs.ids = optional("ids");
  inputs.embeddings = optional("embeddings");
  inputs.positions = optional("positions");
  inputs.timesteps = optional("timesteps");
  inputs.filler_on = optional("filler_on");
  inputs.filler_start = optional("filler_start");
  inputs.filler_noise = optional("filler_noise");
  inputs.filler_keys = optional("filler_keys");
  inputs.empty_average = empty_average;
  inputs.mask = make_mask(attention, optional("block"), optional("length"));
  if (const graph::Value segments = optional("segments"); segments.defined())
    inputs.mask.and_segments(segments, segments);
  if (const graph::Value keys = optional("keys"); keys.defined()) inputs.mask.and_key_keep(keys);
  if (const graph::Value limit = optional("limit"); limit.defined())
    inputs.mask.and_key_limit(limit);
  if (const graph::Value mask = optional("mask"); mask.defined()) inputs.mask.and_dense(mask);
  return inputs;
}

} // namespace dllm::model
