#pragma once
// The state that layers keep of a request between two passes of decoding. Each layer kind declares
// its slots. All layers that have a slot in the same form share one buffer, a stack.

#include "graph/graph.h"
#include "model/config.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dllm::model {

class ParamStore;

enum class StateKind {
  // One row of numbers per position, such as K and V. A pass writes the rows of its window and
  // reads the rows of all keys.
  positional,
  // A state of fixed size: a recurrence after the final tokens. A pass starts from one snapshot and
  // may save the state after its own final tokens to another one. So a policy may compute the open
  // positions as often as it needs.
  snapshot,
  // As snapshot: the last shape[0] rows before the window, as a convolution over positions needs
  // them.
  rolling
};

struct StateSlot {
  std::string name; // "keys"; unique in its layer
  StateKind kind = StateKind::positional;
  Shape shape; // of one position (positional) or of one request
  DType dtype = DType::f32;
  // shape[0] counts heads, and the slot is cut where the heads of attention are cut.
  bool by_heads = false;

  bool is_saved() const { return kind != StateKind::positional; }
};

// Returns the axes of a mesh that share out requests and have several ranks. The ranks at each
// place along these axes compute their own requests and keep the state of these requests.
graph::AxisSet request_axes(const graph::Mesh& mesh);

// The number of requests (of the mesh or of one rank) and the number of positions of each.
struct StateSize {
  int64_t rows = 0, capacity = 0;
};

// Snapshots that a request may have at one time. A pass needs two: one to start from and one to
// save.
constexpr int64_t kSnapshots = 4;

// One slot of all layers that have it in the same form.
struct StateStack {
  std::string name; // "keys"; other forms of the slot "keys@<first layer>"
  StateSlot slot;
  std::vector<int64_t> layers; // ascending

  // Returns the number of rows of a layer, which are consecutive: rows * capacity, or rows *
  // kSnapshots.
  int64_t layer_rows(const StateSize& size) const {
    return size.rows * (slot.is_saved() ? kSnapshots : size.capacity);
  }
  // Returns (layers * layer_rows, numbers of the slot).
  Shape shape(const StateSize& size) const;
  int64_t bytes(const StateSize& size) const;
  // Returns the layout on the mesh of a model's engine; `params` has the cuts of the parameters.
  // The array holds the state of all requests, in the order of the places along request_axes().
  graph::Layout layout(const ParamStore& params) const;
  // Returns the type of the graph input for one rank's part; `size` is the size of that part.
  graph::ValueType type(const StateSize& size, const ParamStore& params) const;
};

std::vector<StateStack> state_stacks(const ModelConfig& config);
bool has_positional(const std::vector<StateStack>& stacks);
bool has_saved(const std::vector<StateStack>& stacks);

// The state as values of a graph. Indices count the rows of one layer.
struct StateValues {
  // One per stack of state_stacks(), in that order. An empty list means that no state is kept.
  std::vector<graph::Value> stacks;
  // Positional slots. i32(batch * seq): the row that each position is written to. An index that is
  // at least the number of rows of all layers writes nothing.
  graph::Value write_at;
  graph::Value read_at; // i32(batch, keys): the row of each key
  // Saved slots, all i32(batch). `from` is the place of the snapshot that a pass starts from; -1:
  // the request begins. `to` is the place of the snapshot to save; out of range: none. `length` is
  // the number of positions of the window before the saved state.
  graph::Value from, to, length;
  bool defined() const { return !stacks.empty(); }
};

// The slots of one layer in the body of a scan. Where no state is kept, a request begins with its
// window.
class LayerState {
public:
  struct Entry {
    StateSlot slot;
    graph::Value stack;             // undefined: no state is kept
    graph::Value write_at, read_at; // positional: rows of the stack
    // Saved: places in the stack. `from` is 0 where a request begins.
    graph::Value from, to;
  };
  LayerState() = default;
  // `begun` is u8(batch): 1: the pass starts from a snapshot. `length` is as in StateValues. Both
  // are undefined where no state is saved. With `rounds` positional rows are rounded to the type of
  // the slot as if they were stored.
  LayerState(std::vector<Entry> entries, graph::Value begun, graph::Value length, bool rounds)
      : entries_(std::move(entries)), begun_(begun), length_(length), rounds_(rounds) {}

  // Positional: writes the rows (batch, seq, ...) of the window and returns the rows of all keys
  // (batch, keys, ...). A slot of type i8 (heads, dim) has a slot "<name>.scale" of f32 (heads):
  // numbers are rounded to multiples of the largest / 127.
  graph::Value keep(const std::string& name, graph::Value rows);

  // Saved: returns the state before the window (batch, shape...), zeros where a request begins.
  graph::Value before(graph::Graph& graph, const std::string& name, int64_t batch) const;
  // Saves the state from the states after every position of the window (batch, seq, shape...).
  void after_each(const std::string& name, graph::Value states);
  // Saves the state after the first length() positions (batch, shape...). The call is needed only
  // where length() is defined.
  void after(const std::string& name, graph::Value states);
  graph::Value length() const { return length_; }
  // Rolling: returns the shape[0] rows before the window, then the rows (batch, seq, ...) of the
  // window: (batch, shape[0] + seq, ...).
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
