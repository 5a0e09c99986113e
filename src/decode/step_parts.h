#pragma once
// What programs of one pass and programs of many steps have in common: the model on a window, and
// the statistics of its head.

#include "decode/step_program.h"
#include "graph/ops.h"
#include "model/builder.h"

#include <string>
#include <vector>

namespace dllm::decode {

// The input of this name; made when the graph has none yet. A loop declares what it changes itself.
graph::Value input_of(graph::Graph& graph, const std::string& name, DType dtype, Shape shape);

// Name and type of the inputs that hold the state, in the order of model::state_stacks.
struct StateInput {
  std::string name;
  graph::ValueType type;
};
std::vector<StateInput> state_inputs(const model::ModelConfig& config, const StepShape& shape);

struct WindowStates {
  graph::Value hidden;  // f32(all_rows * window, hidden)
  model::StateValues state; // after the window was written; undefined where nothing is cached
};

// Inputs ids, positions, limit, and where they apply slides, query_start, timesteps, soft_*, "state:<stack>" of every
// stack of the state, write_at, read_at, and of saved slots from, to, length. timesteps: f32(all_rows) in place of the input of that name.
WindowStates window_states(model::Builder& builder, const StepSettings& settings,
                           const StepShape& shape, graph::Value timesteps = {});

// The model's head over `hidden` (capacity, hidden), with input banned where something is.
// Undefined in it: count, temperature, top_k, top_p, uniform, noise.
graph::TokenStatisticsInputs head_over(model::Builder& builder, graph::Value hidden,
                                       const StepSettings& settings);

} // namespace dllm::decode
