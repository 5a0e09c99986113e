// jax/masks: what the symbolic masks let a query see. Arrays block_causal_<L>_<block> (L, L),
// two_stream_<L>_<block> (2L, 2L), 1 = visible; and CART weights.

#include "graph/engine.h"
#include "graph/ops.h"
#include "handlers.h"
#include "handlers/training/loss_checks.h"
#include "model/network/token_batch.h"
#include "runner.h"

#include <nlohmann/json.hpp>

namespace dllm::parity {
namespace {

// Attention over equal scores with the identity as values: the result is above zero exactly where a
// key is seen.
Tensor visible_of(graph::Engine& engine, const std::shared_ptr<graph::Graph>& graph,
                  const graph::Mask& mask, int64_t seq,
                  const std::vector<graph::BufferRef>& inputs) {
  Tensor eye(DType::f32, {1, seq, 1, seq});
  for (int64_t i = 0; i < seq; ++i) eye.mutable_as<float>()[static_cast<size_t>(i * seq + i)] = 1;
  const graph::Value zeros = graph::full(*graph, {1, seq, 1, 8}, 0.0f);
  graph->output("seen", graph::attention(zeros, zeros, graph::constant(*graph, eye), mask, {}));
  const Tensor weights = engine.compile(graph)->run(inputs).front()->read();
  Tensor seen(DType::i32, {seq, seq});
  for (int64_t i = 0; i < seq * seq; ++i) {
    seen.mutable_as<int32_t>()[static_cast<size_t>(i)] =
        weights.as<float>()[static_cast<size_t>(i)] > 0 ? 1 : 0;
  }
  return seen;
}

Tensor visible(graph::Engine& engine, model::AttentionKind kind, int64_t seq, int32_t length,
               int32_t block) {
  const auto graph = std::make_shared<graph::Graph>("mask");
  const graph::Value blocks = graph->input("block", DType::i32, {});
  const graph::Value lengths = graph->input("length", DType::i32, {});
  return visible_of(engine, graph, model::make_mask(kind, blocks, lengths), seq,
                    {engine.upload(Tensor::scalar(block)), engine.upload(Tensor::scalar(length))});
}

} // namespace

void check_mask(Case& c, const std::string& array, int32_t length, int32_t block) {
  const Tensor& want = c.array(array);
  const bool two = array.starts_with("two_stream") || array.find("twostream") != std::string::npos;
  if (!two && !array.starts_with("block_causal")) c.skip("mask " + array + " is not supported yet");
  const model::AttentionKind kind =
      two ? model::AttentionKind::two_stream : model::AttentionKind::block_causal;
  c.equal(visible(*c.topic().engine(), kind, want.shape()[0], length, block), want.to(DType::i32),
          array);
}

// Blocks are counted from the first column; padding sees nothing and is not seen.
void check_left_padded(Case& c, const Json& entry) {
  const Tensor& want = c.array(entry.at("name").get<std::string>() + ".mask");
  const int64_t seq = entry.at("T").get<int64_t>();
  int64_t row = 0;
  for (const Json& pad : entry.at("left_pad")) {
    Tensor segments(DType::i32, {1, seq}), keys(DType::u8, {1, seq}), rows(DType::i32, {seq, seq});
    for (int64_t i = 0; i < seq; ++i) {
      const bool valid = i >= pad.get<int64_t>();
      segments.mutable_as<int32_t>()[static_cast<size_t>(i)] = valid ? 1 : 0;
      keys.mutable_as<uint8_t>()[static_cast<size_t>(i)] = valid ? 1 : 0;
    }
    for (int64_t i = 0; i < seq * seq; ++i)
      rows.mutable_as<int32_t>()[static_cast<size_t>(i)] =
          want.as<uint8_t>()[static_cast<size_t>(row * seq * seq + i)];
    graph::Engine& engine = *c.topic().engine();
    const auto graph = std::make_shared<graph::Graph>("mask");
    const graph::Value block = graph->input("block", DType::i32, {});
    const graph::Value segment = graph->input("segments", DType::i32, {1, seq});
    const graph::Value keep = graph->input("keys", DType::u8, {1, seq});
    graph::Mask mask = model::make_mask(model::AttentionKind::block_causal, block);
    mask.and_segments(segment, segment).and_key_keep(keep);
    c.equal(visible_of(engine, graph, mask, seq,
                       {engine.upload(Tensor::scalar(entry.at("block").get<int32_t>())),
                        engine.upload(segments), engine.upload(keys)}),
            rows, "row " + std::to_string(row));
    ++row;
  }
}

void run_masks(Topic& topic) {
  for (const Json& entry : topic.list("cart")) {
    topic.run(entry, [&](Case& c) {
      check_cart(c, entry.at("p").get<double>(), c.array("masked"), c.array("weight"),
                 {topic.cases().value("cart_atol", 1e-6), 0});
    });
  }
  for (const Json& entry : topic.list("masks")) {
    for (const Json& array : entry.at("arrays")) {
      const std::string name = array.get<std::string>();
      topic.run(name, [&](Case& c) {
        c.set_prefix("");
        check_mask(c, name, entry.at("L").get<int32_t>(), entry.at("block").get<int32_t>());
      });
    }
  }
}

} // namespace dllm::parity
