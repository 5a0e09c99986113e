#pragma once
// A small latent model, for the tests of policies over arrays.

#include "decode/array/array_policy.h"
#include "decode/decoder/decoder.h"
#include "graph/ops.h"
#include "unit/decode/requests.h"

#include <memory>
#include <string>
#include <vector>

namespace dllm::decode {

// Six latents of width four, whatever the window is. They depend on the given
// tokens, on the last estimate and on the time. Another network has the head.
class LatentRule final : public ArrayRule {
public:
  int64_t width(const model::ModelConfig&) const override { return 4; }
  int64_t length(const model::ModelConfig&, int64_t) const override { return 6; }
  bool self_conditions() const override { return true; }
  std::vector<std::string> other_parts() const override { return {"reader"}; }

  Denoised denoise(const ArrayRows& rows, const NoisyArray& x) const override {
    graph::Graph& graph = rows.builder.graph();
    const auto times = [&](graph::Value y, float n) {
      return graph::multiply(y, graph::scalar(graph, n));
    };
    const Shape wide{rows.rows(), rows.window(), 1};
    const graph::Value given = graph::convert(graph::reshape(rows.given, wide), DType::f32);
    const graph::Value context =
        graph::sum(graph::multiply(rows.builder.embed(rows.ids), given), {1}, true);
    const graph::Value four = graph::slice_axis(context, 2, 0, 4);
    graph::Value sum = graph::add(times(x.numbers, 0.7f), times(four, 0.2f));
    sum = graph::add(sum, times(x.previous, 0.5f));
    sum = graph::add(sum, graph::multiply(x.level.time, times(x.has_previous, 0.3f)));
    return {graph::tanh(sum)};
  }

  ArrayText read(const ArrayRows& rows, graph::Value read) const override {
    read_rows.push_back(rows.rows());
    graph::Graph& graph = rows.builder.graph();
    const Shape wide{rows.rows(), rows.window(), 24};
    const graph::Value flat = graph::broadcast(graph::reshape(read, {rows.rows(), 1, 24}), wide);
    const Shape one{rows.rows(), rows.window(), 1};
    const graph::Value place = graph::convert(graph::reshape(rows.positions, one), DType::f32);
    const graph::Value turn = graph::multiply(place, graph::scalar(graph, 1.7f));
    const graph::Value hidden = graph::sin(graph::add(
        graph::multiply(flat, graph::scalar(graph, 3.0f)), graph::broadcast(turn, wide)));
    return {graph::reshape(hidden, {rows.rows() * rows.window(), 24}),
            rows.builder.part("reader").head()};
  }

  mutable std::vector<int64_t> read_rows; // of every program that reads text
};

inline std::shared_ptr<model::Model> latent_model_on(const std::shared_ptr<graph::Engine>& engine) {
  const auto model = tiny_model(engine);
  Options options(model::model_schema());
  options.set_i64("seed", 5);
  model->add_network("reader", *model::new_model(engine, tiny_config(), options));
  return model;
}

// Decodes with a rule, six steps in one launch.
inline std::unique_ptr<Decoder> decoder_of(const std::shared_ptr<model::Model>& model,
                                           const std::shared_ptr<const ArrayRule>& rule,
                                           const Json& more = Json::object()) {
  Options options(decoder_schema(""));
  options.set_json({{"steps", 6}, {"gen_length", 9}, {"loop", "device"}});
  if (!more.is_null()) options.set_json(more);
  return std::make_unique<Decoder>(model, options, [rule](const PolicySetup& setup) {
    return std::make_unique<ArrayPolicy>(setup, rule);
  });
}

} // namespace dllm::decode
