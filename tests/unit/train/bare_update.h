#pragma once
// One update of one parameter, on bare arrays.

#include "graph/ops.h"
#include "tiny.h"
#include "train/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace dllm::train {

using Numbers = std::vector<float>;

class BareUpdate {
public:
  BareUpdate(const std::string& name, const Json& values, Numbers parameter)
      : BareUpdate(name, values, row_layout(static_cast<int64_t>(parameter.size())), parameter) {}
  BareUpdate(const std::string& name, const Json& values, const model::ParamSpec& layout,
             Numbers parameter, const GroupRate& rate = {})
      : optimizer_(find_optimizer(name)), options_(trainer_options(values)),
        engine_(tiny_engine()) {
    const auto graph = std::make_shared<graph::Graph>("update");
    UpdateValues update;
    ParameterInputs in;
    in.layout = &layout;
    in.rate = rate;
    in.parameter = graph->input("p", DType::f32, layout.shape());
    in.gradient = graph->input("g", DType::f32, layout.shape());
    arrays_.push_back(std::move(parameter));
    shapes_.push_back(layout.shape());
    for (const StateArray& array : optimizer_.state(options_, layout)) {
      shapes_.push_back(array.layout.shape());
      in.state.push_back(graph->input(array.name, DType::f32, shapes_.back()));
      arrays_.emplace_back(shapes_.back().count());
    }
    update.parameters.push_back(in);
    update.scalars = graph->input("scalars", DType::f32, {scalar_count(optimizer_)});
    update.normalizer = graph->input("normalizer", DType::f32, Shape{});
    update.loss_sum = graph::scalar(*graph, 0.0f);
    const Updated next = clipped_update(*graph, optimizer_, options_, update);
    graph->output("p", next.parameters[0].parameter, "p");
    for (size_t i = 0; i < in.state.size(); ++i)
      graph->output("s" + std::to_string(i), next.parameters[0].state[i]);
    graph->output("norm", next.decision.norm);
    program_ = engine_->compile(graph);
  }

  // Gradient of a sum over `normalizer` targets.
  void step(const Numbers& gradient, float normalizer, float clip = INFINITY) {
    const UpdateInfo info{options_.f64("lr"), options_.f64("weight_decay"), ++number_};
    Numbers scalars;
    for (const double value : optimizer_.step_scalars(options_, info))
      scalars.push_back(static_cast<float>(value));
    EXPECT_EQ(scalars.size(), optimizer_.scalars.size());
    scalars.resize(static_cast<size_t>(scalar_count(optimizer_)));
    scalars[optimizer_.scalars.size() + kClip] = clip;
    std::vector<graph::BufferRef> inputs = {upload(arrays_[0], shapes_[0]),
                                            upload(gradient, shapes_[0])};
    for (size_t i = 1; i < arrays_.size(); ++i) inputs.push_back(upload(arrays_[i], shapes_[i]));
    inputs.push_back(upload(scalars, Shape{static_cast<int64_t>(scalars.size())}));
    inputs.push_back(engine_->upload(Tensor::scalar(normalizer)));
    const auto outputs = program_->run(inputs);
    for (size_t i = 0; i < arrays_.size(); ++i) {
      const Tensor read = outputs[i]->read();
      arrays_[i].assign(read.as<float>().begin(), read.as<float>().end());
    }
  }
  const std::vector<Numbers>& arrays() const { return arrays_; } // parameter, state

private:
  static model::ParamSpec row_layout(int64_t count) {
    model::ParamSpec layout{.name = "p", .role = model::ParamRole::weight, .element = {1, count}};
    layout.pieces = {{"p", 1, false}};
    return layout;
  }
  graph::BufferRef upload(const Numbers& values, const Shape& shape) {
    return engine_->upload(Tensor::from(shape, values));
  }
  const Optimizer& optimizer_;
  Options options_;
  std::shared_ptr<graph::Engine> engine_;
  std::shared_ptr<graph::Program> program_;
  std::vector<Numbers> arrays_;
  std::vector<Shape> shapes_;
  int64_t number_ = 0;
};

} // namespace dllm::train
