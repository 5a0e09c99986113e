#pragma once
// The program of a forward pass, its inputs by name, and the arrays that are given for them. Programs of one pass and programs
// of many steps (loop/) share the model on a window and the statistics of its head.

#include "decode/pass/pass_program.h"
#include "graph/graph.h"
#include "graph/ops.h"
#include "model/builder.h"
#include "tensor/batch.h"

#include <span>
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
std::vector<StateInput> state_inputs(const model::ModelConfig& config, const PassShape& shape);

struct WindowStates {
  graph::Value hidden;      // f32(all_rows * window, hidden)
  model::StateValues state; // after the window was written; undefined where nothing is cached
};

// Inputs ids, positions, limit, and where they apply slides, query_start, timesteps, soft_*, "state:<stack>" of every
// stack of the state, write_at, read_at, and of saved slots from, to, length. timesteps: f32(all_rows) in place of the input of that name.
WindowStates window_states(model::Builder& builder, const PassSettings& settings,
                           const PassShape& shape, graph::Value timesteps = {});

// The model's head over `hidden` (capacity, hidden), with input banned where something is.
// Undefined in it: count, temperature, top_k, top_p, uniform, noise.
graph::TokenStatisticsInputs head_over(model::Builder& builder, graph::Value hidden,
                                       const PassSettings& settings);

// Outputs: the stacks of the state (cached passes only, in the place of the inputs), then answer, a line of
// numbers per wanted position (predictions.h), and rest where tokens are deferred. No answer
// where the shape's capacity is 0.
void build_pass(graph::Graph& graph, const model::Model& model, const PassSettings& settings,
                const PassShape& shape);

// --- the arrays of a pass ---

// The row of hidden states that predicts a position, inside a window that begins at `begin`: the
// one before it under shift 1; the window's first predicts itself, as Dream's and Fast-dLLM's do.
int64_t predicting(int64_t position, int shift, int64_t begin);

// The arrays of window_states: ids, positions, limit, and where they apply slides, query_start,
// timesteps, soft_*, guidance, write_at, read_at, from, to, length; banned too.
void add_window_feed(Batch& feed, const model::ModelConfig& config, const PassSettings& settings,
                     const PassShape& shape, std::span<const PassRow> rows,
                     const DecodeState& state);

Batch pass_feed(const model::ModelConfig& config, const PassSettings& settings,
                const PassShape& shape, std::span<const PassRow> rows, const DecodeState& state);

} // namespace dllm::decode
