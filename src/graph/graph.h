#pragma once
// Defines the graph, the program of one rank in static single assignment form. Nodes are appended
// in topological order and never change. Shapes and types are checked when a node is added.

#include "base/error.h"
#include "graph/mesh.h"
#include "tensor/tensor.h"
#include "tensor/weight_format.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace dllm::graph {

using Attribute = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>>;

// The static arguments of a node, by name. They are comparable, so that equal nodes can be merged.
class Attributes {
public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string, Attribute>> entries)
      : entries_(entries) {}

  void set(std::string name, Attribute value); // replaces an attribute of that name
  bool has(std::string_view name) const;
  // Return an attribute. Fail with Code::internal if it is missing or has another type, which is a
  // bug in the operation.
  bool flag(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const std::vector<int64_t>& list(std::string_view name) const;

  const std::vector<std::pair<std::string, Attribute>>& entries() const { return entries_; }
  std::string dump() const; // "axis=1 begin=[0, 4]"; "" without attributes
  friend bool operator==(const Attributes&, const Attributes&) = default;

private:
  template <class T> const T& get(std::string_view name) const;
  std::vector<std::pair<std::string, Attribute>> entries_;
};

class Graph;
struct OpDef;

struct ValueType {
  Shape shape;
  DType dtype = DType::f32;
  AxisSet axes; // the mesh axes over which the value varies; empty on one rank
  // Format of a weight in blocks, u8(.., rows, bytes of a row); null for an ordinary array.
  // Products read the format; results of other operations do not have it.
  const WeightFormat* format = nullptr;

  // Returns the shape of the numbers, which differs from `shape` for a weight in blocks.
  Shape numbers() const { return number_shape(format, shape); }
  std::string text() const; // "f32(2, 8, 64)" or "f32(2, 8){data}" or "q8_0(64, 128)"
  friend bool operator==(const ValueType&, const ValueType&) = default;
};

// A handle to a graph input or to one result of a node. It is valid as long as its graph.
struct Value {
  Graph* graph = nullptr;
  int32_t id = -1;

  bool defined() const { return graph != nullptr; }
  const ValueType& type() const;
  const Shape& shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }
  int64_t dim(int64_t axis) const { return shape().dim(axis); }
  int64_t rank() const { return shape().rank(); }
  friend bool operator==(const Value&, const Value&) = default;
};

struct Node {
  const OpDef* op = nullptr;
  std::vector<int32_t> inputs;  // value ids
  std::vector<int32_t> outputs; // value ids
  Attributes attributes;
  Tensor literal; // the numbers of a constant
  // Bodies of control nodes: scan {body}, while {cond, body}. A body reads only its own inputs.
  std::vector<std::shared_ptr<const Graph>> bodies;
};

struct GraphInput {
  std::string name;
  int32_t value;
  bool is_parameter = false; // engines may keep a parameter in a packed form
};

struct GraphOutput {
  std::string name;
  int32_t value;
  int32_t donated_input = -1; // index of the input that this output takes over, or -1
  // The holder releases the output soon. So an engine may keep it in memory that later runs need.
  bool is_brief = false;
};

class Graph {
public:
  explicit Graph(std::string name = "main") : name_(std::move(name)) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const std::string& name() const { return name_; }

  Value input(std::string name, ValueType type, bool is_parameter = false);
  Value input(std::string name, DType dtype, Shape shape) {
    return input(std::move(name), {std::move(shape), dtype, {}});
  }
  // Declares an output. donated_input: name of an input of the same type whose memory the output
  // takes over; "" for none. is_brief: GraphOutput::is_brief.
  void output(std::string name, Value value, const std::string& donated_input = {},
              bool is_brief = false);

  // Appends a node and returns its results. The shape rule of the operation fails with
  // invalid_argument, naming operation and shapes. If the operands vary over different axes, `vary`
  // nodes are inserted. REQUIRES: the inputs belong to this graph.
  std::vector<Value> add(const OpDef& op, std::span<const Value> inputs, Attributes attributes = {},
                         std::vector<std::shared_ptr<const Graph>> bodies = {},
                         Tensor literal = {});

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<GraphInput>& inputs() const { return inputs_; }
  const std::vector<GraphOutput>& outputs() const { return outputs_; }
  const ValueType& type(int32_t value) const { return values_[static_cast<size_t>(value)].type; }
  // Returns the index of the node that computes the value, or -1 for a graph input.
  int32_t producer(int32_t value) const { return values_[static_cast<size_t>(value)].node; }
  int32_t value_count() const { return static_cast<int32_t>(values_.size()); }
  Value value(int32_t id) { return {this, id}; }
  int32_t find_input(std::string_view name) const;  // index or -1
  int32_t find_output(std::string_view name) const; // index or -1

  // Replaces the body of a scan by a body with more per-step results and returns the new stacked
  // values. The results so far keep their value ids. Only gradients use it.
  std::vector<Value> widen_scan(int32_t node, std::shared_ptr<const Graph> body);

  // Returns the graph as text: one node per line, bodies indented.
  std::string dump() const;

private:
  struct ValueInfo {
    ValueType type;
    int32_t node;
  };
  std::string name_;
  std::vector<Node> nodes_;
  int32_t new_value(ValueType type, int32_t node);
  std::deque<ValueInfo> values_; // references to types stay valid while the graph grows
  std::vector<GraphInput> inputs_;
  std::vector<GraphOutput> outputs_;
};

} // namespace dllm::graph
