#pragma once
// What layers keep of a request between two passes of decoding. Each layer kind declares its slots; the slots of one
// form in all layers are one buffer, a stack.

#include "graph/graph.h"
#include "model/config.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dllm::model {

class ParamStore;

enum class StateKind {
  // A row of numbers per position, as K and V: a pass writes the rows of its window and reads those of all keys.
  positional,
  // Of fixed size: the state of a recurrence after the final tokens. A pass starts from it and may save the state
  // after its own final tokens in another place, so the open positions can be computed as often as a policy wants.
  snapshot,
  // As snapshot: the last shape[0] rows before that place, as a convolution over time needs them.
  rolling
};

struct StateSlot {
  std::string name; // "keys"; unique in its layer
  StateKind kind = StateKind::positional;
  Shape shape; // of one position (positional) or of one request
  DType dtype = DType::f32;
  bool by_heads = false; // shape[0] counts heads: cut where the heads of attention are

  bool is_saved() const { return kind != StateKind::positional; }
};

// The axes of a mesh that share out requests, those of several ranks: each place along them computes its own requests,
// and keeps their state.
graph::AxisSet request_axes(const graph::Mesh& mesh);

// Requests (of the mesh, or of one rank), and positions of each.
struct StateSize {
  int64_t rows = 0, capacity = 0;
};

// Snapshots a request has at a time. Two are needed: the one a pass starts from, the one it saves.
constexpr int64_t kSnapshots = 4;

// One slot of all layers that have it in the same form.
struct StateStack {
  std::string name; // "keys"; further forms "keys@<first layer>"
  StateSlot slot;
  std::vector<int64_t> layers; // ascending

  // The rows of a layer follow one another: rows * capacity, or rows * kSnapshots.
  int64_t layer_rows(const StateSize& size) const {
    return size.rows * (slot.is_saved() ? kSnapshots : size.capacity);
  }
  Shape shape(const StateSize& size) const; // (layers * layer_rows, numbers of the slot)
  int64_t bytes(const StateSize& size) const;
  // On the mesh of a model's engine, with parameters cut as `params` says: the state of all requests, those of the first
  // place along request_axes() first.
  graph::Layout layout(const ParamStore& params) const;
  // Of the input that stands for the part of one rank in a graph; size: of its requests.
  graph::ValueType type(const StateSize& size, const ParamStore& params) const;
};

std::vector<StateStack> state_stacks(const ModelConfig& config);
bool has_positional(const std::vector<StateStack>& stacks);
bool has_saved(const std::vector<StateStack>& stacks);

// The state as values of a graph. Indices are those of a layer's rows.
struct StateValues {
  std::vector<graph::Value> stacks; // one per state_stacks(), in that order; empty: nothing is kept
  // Positional slots. i32(batch * seq): the row of each position; all rows of all layers or more: nowhere.
  graph::Value write_at;
  graph::Value read_at; // i32(batch, keys): the row of every key
  // Saved slots, i32(batch): the place of the snapshot a pass starts from, -1: the beginning of the request; the place
  // of the one it saves, out of range: none; after how many positions of the window.
  graph::Value from, to, length;
  bool defined() const { return !stacks.empty(); }
};

// The slots of one layer inside the body of a scan. Where nothing is kept, a request begins with its window.
class LayerState {
public:
  struct Entry {
    StateSlot slot;
    graph::Value stack;             // undefined: nothing is kept
    graph::Value write_at, read_at; // positional: rows of the stack
    graph::Value from, to;          // saved: places of the stack, from >= 0 as `starts` says
  };
  LayerState() = default;
  // begun: u8(batch): a pass starts from a snapshot; length as in StateValues; both undefined where nothing is saved.
  // rounds: positional rows are rounded to the slot's type as if they were kept.
  LayerState(std::vector<Entry> entries, graph::Value begun, graph::Value length, bool rounds)
      : entries_(std::move(entries)), begun_(begun), length_(length), rounds_(rounds) {}

  // Positional: rows (batch, seq, ...) of the window are written; answers those of all keys (batch, keys, ...). A slot of
  // i8 (heads, dim) has a slot "<name>.scale" of f32 (heads) next to it: numbers are rounded to multiples of the largest / 127.
  graph::Value keep(const std::string& name, graph::Value rows);

  // Saved: (batch, shape...), zeros at the beginning of a request.
  graph::Value before(graph::Graph& graph, const std::string& name, int64_t batch) const;
  // The state after every position of the window (batch, seq, shape...).
  void after_each(const std::string& name, graph::Value states);
  // The state after the first length() positions (batch, shape...); needed only where length() is defined.
  void after(const std::string& name, graph::Value states);
  graph::Value length() const { return length_; }
  // rolling: rows (batch, seq, ...) of the window behind the shape[0] rows before it (batch, shape[0] + seq, ...).
  graph::Value roll(const std::string& name, graph::Value rows);

  const std::vector<Entry>& entries() const { return entries_; }

private:
  graph::Value keep_rounded(Entry& own, graph::Value rows);
  Entry& entry(const std::string& name);
  const Entry& entry(const std::string& name) const;

  std::vector<Entry> entries_;
  graph::Value begun_, length_;
  bool rounds_ = false;
};

} // namespace dllm::model
