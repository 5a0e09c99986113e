#pragma once
// The model on windows of canvases and the statistics of chosen positions, as one program. Shapes
// are rounded up, counts are data, so a few programs serve all steps of a batch.

#include "base/error.h"
#include "decode/cache/decode_state.h"
#include "decode/pass/pass.h"
#include "decode/pass/shares.h"
#include "graph/graph.h"
#include "graph/ops.h"
#include "model/builder.h"
#include "model/model.h"
#include "runtime/programs.h"
#include "tensor/batch.h"

#include <compare>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dllm::decode {

// Programs of one kind that a decoder keeps.
constexpr size_t kKeptPrograms = 32;

// The parameters of one version, in the order of the ParamStore.
struct Weights {
  std::vector<graph::BufferRef> buffers;
  std::vector<std::string> parts; // of the model, one for each buffer
  int64_t version = 0;

  std::vector<graph::BufferRef> of(const model::PartList& list) const;
};

// The weights of the model now. Waits for a training step that has the arrays.
Weights weights_of(const model::Model& model, const Task* task = nullptr);

// Runs a program once with its parameters and the arrays of its inputs' names, a set for each share of the mesh
// (shares.h). cache: null, or the owner of the inputs "state:...", which are written in place and are the first outputs.
// If the run fails, the cache is returned unchanged, or graph::StateLost is thrown; recover() then makes new buffers.
// Outputs as runtime::Arguments::run.
std::vector<graph::BufferRef> run_pass(const std::shared_ptr<graph::Program>& program,
                                       graph::Engine& engine,
                                       std::span<const graph::BufferRef> parameters,
                                       std::span<const Batch> feeds, DecodeState* cache,
                                       const Task* task);

// Rows that may share a pass have equal keys.
struct PassKey {
  const PassSettings* settings;
  std::optional<model::PartList> parts;
  bool soft, guided, cached;

  PassKey(const PassRequest& pass, const PassSettings& of)
      : settings(&of), parts(pass.parts), soft(!pass.soft.empty()),
        guided(!pass.unconditional.empty()), cached(pass.cached) {}
  friend auto operator<=>(const PassKey&, const PassKey&) = default;
};

// What a pass says to one of its rows.
struct RowAnswer {
  std::vector<Prediction> predictions;  // in the order of PassRequest::positions
  std::shared_ptr<const Error> failure; // null: every prediction is finite
};

// Keeps the last compiled programs. One call at a time.
class PassProgram {
public:
  explicit PassProgram(std::shared_ptr<model::Model> model);
  PassProgram(std::shared_ptr<model::Model> model, const Rounding& rounding);
  const Rounding& rounding() const { return rounding_; }

  // settings: those of all rows. A row's results depend on that row alone. capacity: most positions of
  // any step of this batch, so that its steps share a program. state: where cached rows lie; all of it
  // is lost after an exception, the part of a row when that row fails. A pass that wants no position
  // fills the cache and reads nothing back; least_rows as pass_shape has it.
  std::vector<RowAnswer> run(std::span<const PassRow> rows, const PassSettings& settings,
                             DecodeState& state, const Weights& weights, int64_t capacity,
                             const Task* task, int64_t least_rows = 0);
  // Positions of all programs that ran, padding included.
  int64_t computed() const { return computed_; }

private:
  std::shared_ptr<model::Model> model_;
  const Rounding rounding_;
  int64_t computed_ = 0;
  runtime::ProgramCache<PassShape> programs_{kKeptPrograms};
};

// The program of a forward pass, its inputs by name, and the arrays that are given for them. Programs of one pass and programs
// of many steps (loop/) share the model on a window and the statistics of its head.

// The input of this name; made when the graph has none yet. A loop declares what it changes itself.
graph::Value input_of(graph::Graph& graph, const std::string& name, DType dtype, Shape shape);
graph::Value input_of(graph::Graph& graph, const std::string& name, const graph::ValueType& type);
// The same of an array of the rows, which differs between the shares of a mesh (shares.h).
graph::Value row_input(model::Builder& builder, const std::string& name, DType dtype, Shape shape);

// Name and type of the inputs that hold the state, in the order of model::state_stacks.
struct StateInput {
  std::string name;
  graph::ValueType type;
};
std::vector<StateInput> state_inputs(const model::ModelConfig& config,
                                     const model::ParamStore& params, const PassShape& shape);

struct WindowStates {
  graph::Value hidden;      // f32(all_rows * window, hidden)
  model::StateValues state; // after the window was written; undefined where nothing is cached
};

// Inputs ids, positions, limit, and where they apply slides, query_start, canvas_start, timesteps, soft_*, conditioning,
// conditioned_at, "state:<stack>" of every stack of the state, write_at, read_at, and of saved slots from, to, length. timesteps: f32(all_rows) in place of the input of that name.
WindowStates window_states(model::Builder& builder, const PassShape& shape,
                           graph::Value timesteps = {});

// The model's head over `hidden` (capacity, hidden), with input banned where the shape says so.
// Undefined in it: count, temperature, top_k, top_p, uniform, noise.
graph::TokenStatisticsInputs head_over(model::Builder& builder, graph::Value hidden,
                                       const PassShape& shape);

// Outputs: the stacks of the state (cached passes only, in the place of the inputs), then answer, a line of
// numbers per wanted position (pass.h) of every share, rest where tokens are deferred, left where needs.looks_left, and
// mean_embedding where needs.conditions. No answer where the shape's capacity is 0.
void build_pass(graph::Graph& graph, const model::Model& model, const PassShape& shape);

// --- the arrays of a pass ---

// The row of hidden states that predicts a position, inside a window that begins at `begin`: the
// one before it under shift 1; the window's first predicts itself, as Dream's and Fast-dLLM's do.
int64_t predicting(int64_t position, int shift, int64_t begin);

// The arrays of window_states: ids, positions, limit, and where they apply slides, query_start,
// canvas_start, timesteps, soft_*, guidance, write_at, read_at, from, to, length; banned too.
void add_window_feed(Batch& feed, const model::ModelConfig& config, const PassSettings& settings,
                     const PassShape& shape, std::span<const PassRow> rows,
                     const DecodeState& state);

// Of the rows of one share.
Batch pass_feed(const model::ModelConfig& config, const PassSettings& settings,
                const PassShape& shape, std::span<const PassRow> rows, const DecodeState& state);

} // namespace dllm::decode
