#pragma once
// A graph in static single assignment form: the program of one rank. Nodes are appended in topological order and never
// change; shapes and types are checked when a node is made.

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

// The static arguments of a node: few, named, printable, comparable (so common nodes can be merged).

using Attribute = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>>;

class Attributes {
public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string, Attribute>> entries)
      : entries_(entries) {}

  void set(std::string name, Attribute value); // replaces
  bool has(std::string_view name) const;
  // Fails with Code::internal when the attribute is missing or of another type: a bug in an op.
  bool flag(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const std::vector<int64_t>& list(std::string_view name) const;

  const std::vector<std::pair<std::string, Attribute>>& entries() const { return entries_; }
  std::string dump() const; // "axis=1 begin=[0, 4]"; "" when empty
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
  AxisSet axes; // over which the value varies; empty on one rank
  // Not null: a weight in blocks, u8(.., rows, bytes of a row); operations on it lose the format, products read it.
  const WeightFormat* format = nullptr;

  // Of the numbers it stands for: differs from `shape` for a weight in blocks.
  Shape numbers() const { return number_shape(format, shape); }
  std::string text() const; // "f32(2, 8, 64)" or "f32(2, 8){data}" or "q8_0(64, 128)"
  friend bool operator==(const ValueType&, const ValueType&) = default;
};

// A handle to one result of one node. Cheap to copy; valid as long as its graph.
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
  Tensor literal; // the number(s) of a constant
  // Bodies of control nodes: scan {body}, while {cond, body}. A body sees nothing but its own inputs.
  std::vector<std::shared_ptr<const Graph>> bodies;
};

struct GraphInput {
  std::string name;
  int32_t value;
  bool is_parameter = false; // engines may keep such an input in a form of their own (packed)
};

struct GraphOutput {
  std::string name;
  int32_t value;
  int32_t donated_input = -1; // index of the input whose storage this output takes over, or -1
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
  // donated_input: name of an input of the same type that is not needed after this output is written.
  void output(std::string name, Value value, const std::string& donated_input = {});

  // Appends a node; runs the op's shape rule, which fails with invalid_argument naming op and shapes. Operands that
  // disagree in axes are made varying (a `vary` node is inserted). REQUIRES: inputs belong to this graph.
  std::vector<Value> add(const OpDef& op, std::span<const Value> inputs, Attributes attributes = {},
                         std::vector<std::shared_ptr<const Graph>> bodies = {},
                         Tensor literal = {});

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<GraphInput>& inputs() const { return inputs_; }
  const std::vector<GraphOutput>& outputs() const { return outputs_; }
  const ValueType& type(int32_t value) const { return values_[static_cast<size_t>(value)].type; }
  // Index of the node that makes the value, or -1 for a graph input.
  int32_t producer(int32_t value) const { return values_[static_cast<size_t>(value)].node; }
  int32_t value_count() const { return static_cast<int32_t>(values_.size()); }
  Value value(int32_t id) { return {this, id}; }
  int32_t find_input(std::string_view name) const;  // index or -1
  int32_t find_output(std::string_view name) const; // index or -1

  // Replaces the body of a scan by one with more per-step results; returns the new stacked values. Used by
  // gradients alone; existing outputs keep their value ids.
  std::vector<Value> widen_scan(int32_t node, std::shared_ptr<const Graph> body);

  // Text a person can read: one node a line, bodies indented.
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
