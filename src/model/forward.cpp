#include "base/error.h"
#include "graph/ops.h"
#include "model/builder.h"
#include "model/model.h"
#include "runtime/arguments.h"
#include "runtime/feed.h"
#include "tensor/batch.h"

#include <fmt/format.h>

#include <algorithm>

namespace dllm::model {
namespace {

// The options of one call, resolved against the model.
struct Call {
  AttentionKind attention;
  int shift = 0;
  int64_t block = 0;
  bool logits = false, hidden = false, layers = false, empty_average = false;
  int64_t batch = 0, seq = 0;
};

Tensor wanted(const Batch& batch, const char* name, DType dtype, const Shape& shape) {
  const Tensor& found = batch.at(name);
  if (found.shape() != shape) {
    fail(Code::invalid_argument, "{}: shape {}, expected {}", name, found.shape().text(),
         shape.text());
  }
  if (!is_float(dtype) && is_float(found.dtype())) {
    fail(Code::invalid_argument, "{}: type {}, expected {}", name, dtype_name(found.dtype()),
         dtype_name(dtype));
  }
  return found.to(dtype);
}

Tensor wanted_flags(const Batch& batch, const char* name, const Shape& shape) {
  Tensor found = wanted(batch, name, DType::u8, shape);
  check_between(name, found, 0, 1, "1: may be seen");
  return found;
}

Call resolve(const ModelConfig& config, const Batch& batch, const Options& options) {
  Call call;
  call.attention = attention_from_name(options.str("attention"));
  if (call.attention == AttentionKind::automatic) call.attention = config.attention;
  call.shift = options.i64("shift") >= 0 ? static_cast<int>(options.i64("shift")) : config.shift;
  call.block = options.i64("block_length") > 0 ? options.i64("block_length") : config.block_length;
  call.empty_average = options.boolean("empty_average");
  for (const std::string& name : options.list("outputs")) {
    if (name == "logits")
      call.logits = true;
    else if (name == "hidden")
      call.hidden = true;
    else if (name == "layers")
      call.layers = true;
    else
      fail_with_hint("outputs are logits, hidden, layers", Code::invalid_argument,
                     "no output named {}", name);
  }
  const Tensor* input = batch.find("embeddings");
  if (input == nullptr) input = &batch.at("ids");
  const int64_t rank = batch.has("embeddings") ? 3 : 2;
  if (input->shape().rank() != rank || input->count() == 0) {
    fail(Code::invalid_argument, "{}: shape {}, expected {} axes and no empty one",
         rank == 3 ? "embeddings" : "ids", input->shape().text(), rank);
  }
  call.batch = input->shape()[0];
  call.seq = input->shape()[1];
  const bool blocks =
      call.attention == AttentionKind::block_causal || call.attention == AttentionKind::two_stream;
  if (blocks && call.block <= 0) {
    fail_with_hint("set block_length, or \"dllm\": {\"block_length\"} in config.json",
                   Code::failed_precondition, "{} attention needs a block length",
                   attention_name(call.attention));
  }
  if (call.attention == AttentionKind::two_stream && call.seq % 2 != 0) {
    fail(Code::invalid_argument, "two_stream attention needs rows of even length, found {}",
         call.seq);
  }
  return call;
}

// Both streams count from 0.
Tensor two_stream_positions(const Call& call) {
  Tensor positions(DType::i32, {call.batch, call.seq});
  const auto out = positions.mutable_as<int32_t>();
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<int32_t>(static_cast<int64_t>(i) % call.seq % (call.seq / 2));
  }
  return positions;
}

Tensor dense_mask(const Batch& batch, const Call& call) {
  const Tensor& mask = batch.at("mask");
  const Shape whole{call.batch, call.seq, call.seq};
  if (mask.shape() != Shape{1, call.seq, call.seq}) return wanted_flags(batch, "mask", whole);
  const Tensor one = wanted_flags(batch, "mask", mask.shape());
  Tensor all(DType::u8, whole);
  for (int64_t b = 0; b < call.batch; ++b) {
    std::copy_n(one.as<uint8_t>().begin(), one.count(),
                all.mutable_as<uint8_t>().begin() + b * one.count());
  }
  return all;
}

// Where the tokens stand: the array, or their places in the row.
void add_positions(const ModelConfig& config, const Batch& batch, const Call& call, Batch& feed) {
  if (batch.has("positions"))
    feed.set("positions", wanted(batch, "positions", DType::i32, {call.batch, call.seq}));
  else if (call.attention == AttentionKind::two_stream)
    feed.set("positions", two_stream_positions(call));
  if (feed.has("positions")) {
    check_between("positions", feed.at("positions"), 0, config.position_limit() - 1,
                  "the positions of the model");
  } else if (call.seq > config.position_limit()) {
    fail_with_hint("cut the rows, or give positions", Code::invalid_argument,
                   "rows of {} tokens, the model has {} positions", call.seq,
                   config.max_positions);
  }
}

Batch feed_of(const ModelConfig& config, const Batch& batch, const Call& call) {
  const Shape rows{call.batch, call.seq};
  Batch feed;
  if (batch.has("embeddings")) {
    feed.set("embeddings", wanted(batch, "embeddings", DType::f32,
                                           {call.batch, call.seq, config.hidden_size}));
    check_finite("embeddings", feed.at("embeddings"));
  } else {
    feed.set("ids", wanted(batch, "ids", DType::i32, rows));
    check_between("ids", feed.at("ids"), 0, config.vocab_size - 1, "the vocabulary",
                  "the tokenizer and the model must have the same vocabulary");
  }
  add_positions(config, batch, call, feed);
  if (config.time_conditioning) {
    feed.set("timesteps", wanted(batch, "timesteps", DType::f32, {call.batch}));
    check_finite("timesteps", feed.at("timesteps"));
  }
  if (batch.has("segments")) {
    feed.set("segments", wanted(batch, "segments", DType::i32, rows));
    check_between("segments", feed.at("segments"), 0, INT32_MAX, "0: padding");
  }
  if (batch.has("keys")) feed.set("keys", wanted_flags(batch, "keys", rows));
  if (batch.has("mask")) feed.set("mask", dense_mask(batch, call));
  feed.set("block", Tensor::scalar(static_cast<int32_t>(call.block)));
  feed.set("length", Tensor::scalar(static_cast<int32_t>(call.seq / 2)));
  return feed;
}

std::string key_of(const ModelConfig& config, const ParamStore& params, const Call& call,
                   const Batch& feed) {
  std::string key =
      fmt::format("{} {} {} {} {} {} v{}", attention_name(call.attention), call.shift, call.logits,
                  call.hidden, call.layers, call.empty_average, config.vocab_size);
  key += " " + runtime::feed_signature(feed);
  for (const ParamStore::Physical& entry : params.physical()) key += entry.format->name;
  return key;
}

// Row i of the result tells about token i: with shift 1 that is what the state before it says.
graph::Value shifted(graph::Value logits) {
  const int64_t seq = logits.dim(1);
  if (seq == 1) return logits;
  return graph::concat(
      {graph::slice_axis(logits, 1, 0, 1), graph::slice_axis(logits, 1, 0, seq - 1)}, 1);
}

std::shared_ptr<graph::Program> compile(Model& model, const Call& call, const Batch& feed) {
  const auto graph = std::make_shared<graph::Graph>("forward");
  Builder builder(*graph, model);
  const std::map<std::string, graph::Value> values = runtime::feed_inputs(*graph, feed);
  const auto optional = [&](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? graph::Value{} : found->second;
  };

  ForwardInputs inputs;
  inputs.ids = optional("ids");
  inputs.embeddings = optional("embeddings");
  inputs.positions = optional("positions");
  inputs.timesteps = optional("timesteps");
  inputs.empty_average = call.empty_average;
  inputs.mask = make_mask(call.attention, values.at("block"), values.at("length"));
  if (const graph::Value segments = optional("segments"); segments.defined())
    inputs.mask.and_segments(segments, segments);
  if (const graph::Value keys = optional("keys"); keys.defined()) inputs.mask.and_key_keep(keys);
  if (const graph::Value mask = optional("mask"); mask.defined()) inputs.mask.and_dense(mask);

  const ForwardOutputs result = builder.forward(inputs, call.layers);
  if (call.logits) {
    const graph::Value logits = builder.logits(result.hidden);
    graph->output("logits", call.shift == 1 ? shifted(logits) : logits);
  }
  if (call.hidden) graph->output("hidden", result.hidden);
  if (call.layers) {
    std::vector<graph::Value> taps;
    for (const graph::Value& tap : result.taps)
      taps.push_back(graph::reshape(tap, tap.shape().with_front(1)));
    graph->output("layers", graph::concat(taps, 0));
  }
  return model.engine().compile(graph);
}

} // namespace

const Schema& forward_schema() {
  static const Schema schema(
      "forward",
      {option_choice("attention", "auto",
                     {"auto", "causal", "bidirectional", "block_causal", "two_stream"},
                     "What a token sees; auto: the model's own."),
       option_i64("shift", -1, -1, 1,
                  "1: logits of row i are those of the state before it; -1: the model's own."),
       option_i64("block_length", 0, 0, 1 << 24,
                  "Block of block_causal and two_stream; 0: the model's own."),
       option_list("outputs", {"logits"}, "Arrays of the result: logits, hidden, layers."),
       option_bool("empty_average", false,
                   "A token that sees nothing averages all values, as dllm-jax does.")});
  return schema;
}

Batch forward(Model& model, const Batch& batch, Task* task) {
  return forward(model, batch, Options(forward_schema()), task);
}

Batch forward(Model& model, const Batch& batch, const Options& options, Task* task) {
  check_task(task);
  const Call call = resolve(model.config(), batch, options);
  const Batch feed = feed_of(model.config(), batch, call);
  const std::string key = key_of(model.config(), model.params(), call, feed);
  const auto program = model.forward_cache().get(key, [&] { return compile(model, call, feed); });
  runtime::Arguments arguments(program);
  arguments.share_parameters(model.params().snapshot(nullptr, task));
  arguments.upload(model.engine(), feed);
  const std::vector<graph::BufferRef> results = arguments.run(task);
  Batch answer;
  for (size_t i = 0; i < results.size(); ++i)
    answer.set(program->graph().outputs()[i].name, results[i]->read());
  return answer;
}

} // namespace dllm::model
