// Filters of a draw and the confidences after them: token_statistics on logits as they are. A token
// is kept when noise in its favour makes it the draw.

#include "handlers/decoding/decoding_misc.h"

#include "graph/ops.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace dllm::parity {
namespace {

struct Filters {
  int32_t top_k = 0;
  float top_p = 1;
  bool nucleus_first = false;
};

Filters filters_of(const Json& entry, bool nucleus_first) {
  Filters filters;
  if (!entry.at("top_k").is_null()) filters.top_k = entry.at("top_k").get<int32_t>();
  if (!entry.at("top_p").is_null()) filters.top_p = entry.at("top_p").get<float>();
  filters.nucleus_first = nucleus_first;
  return filters;
}

struct Shaped {
  Tensor draw, probability, margin, entropy;
};

// Statistics of rows of logits (rows, vocab) at temperature 1 with noise (rows, vocab).
Shaped statistics(Topic& topic, const Tensor& logits, const Tensor& noise, const Filters& filters) {
  const int64_t rows = logits.shape()[0], vocab = logits.shape()[1];
  Tensor identity(DType::f32, {vocab, vocab});
  for (int64_t i = 0; i < vocab; ++i)
    identity.mutable_as<float>()[static_cast<size_t>(i * vocab + i)] = 1.0f;
  auto graph = std::make_shared<graph::Graph>("filters");
  std::vector<Tensor> feed;
  const auto input = [&](const char* name, const Tensor& tensor) {
    feed.push_back(tensor);
    return graph->input(name, tensor.dtype(), tensor.shape());
  };
  const auto each = [&](auto value) {
    return Tensor::from(Shape{rows},
                        std::vector<decltype(value)>(static_cast<size_t>(rows), value));
  };
  graph::TokenStatisticsInputs in;
  in.x = input("x", logits);
  in.weight = input("weight", identity);
  in.temperature = input("temperature", each(1.0f));
  in.filters = {{"top_k", input("top_k", each(filters.top_k))},
                {"top_p", input("top_p", each(filters.top_p))}};
  if (filters.nucleus_first) std::swap(in.filters[0], in.filters[1]);
  in.uniform = input("uniform", each(0.5f));
  in.noise = input("noise", noise);
  in.shaped = true;
  const graph::TokenStatistics s = graph::token_statistics(in, 1);
  graph->output("draw", s.draw);
  graph->output("probability", s.shaped_prob);
  graph->output("margin", s.shaped_margin);
  graph->output("entropy", s.shaped_entropy);
  const std::shared_ptr<graph::Program> program = topic.engine()->compile(graph);
  std::vector<graph::BufferRef> inputs;
  for (const Tensor& tensor : feed) inputs.push_back(topic.engine()->upload(tensor, true));
  const std::vector<graph::BufferRef> outputs = program->run(inputs, nullptr);
  return {outputs[0]->read(), outputs[1]->read(), outputs[2]->read(), outputs[3]->read()};
}

// 1 where a token survives the filters.
Tensor kept(Topic& topic, const Tensor& logits, const Filters& filters) {
  const int64_t rows = logits.shape()[0], vocab = logits.shape()[1];
  Tensor result(DType::i32, {rows, vocab});
  for (int64_t token = 0; token < vocab; ++token) {
    Tensor noise(DType::f32, {rows, vocab});
    for (int64_t r = 0; r < rows; ++r)
      noise.mutable_as<float>()[static_cast<size_t>(r * vocab + token)] = 1e6f;
    const Tensor draw = statistics(topic, logits, noise, filters).draw;
    for (int64_t r = 0; r < rows; ++r)
      result.mutable_as<int32_t>()[static_cast<size_t>(r * vocab + token)] =
          draw.as<int32_t>()[static_cast<size_t>(r)] == token ? 1 : 0;
  }
  return result;
}

Tensor negated(const Tensor& tensor) {
  Tensor result = tensor.clone();
  for (float& x : result.mutable_as<float>()) x = -x;
  return result;
}

} // namespace

void run_filter(Case& c, const Json& entry) {
  const Tensor& logits = c.array("logits");
  const Filters dream = filters_of(entry, true), llada2 = filters_of(entry, false);
  c.equal(kept(c.topic(), logits, dream), c.array("kept_dream"), "kept_dream");
  c.equal(kept(c.topic(), logits, llada2), c.array("kept_llada2"), "kept_llada2");
  // Without noise the draw is the likeliest token.
  const Shaped shaped = statistics(c.topic(), logits, Tensor(DType::f32, logits.shape()), dream);
  const Tolerance tolerance{1e-5, 0};
  c.close(tolerance, shaped.probability, c.array("confidence.maskgit_plus"), "maskgit_plus");
  c.close(tolerance, shaped.margin, c.array("confidence.topk_margin"), "topk_margin");
  c.close(tolerance, negated(shaped.entropy), c.array("confidence.entropy"), "entropy");
}

} // namespace dllm::parity
