#pragma once
// A graph as the text of one StableHLO module: the input of every plugin's compiler.

#include "graph/graph.h"
#include "graph/mesh.h"
#include "graph/op.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::pjrt {

struct EmitOptions {
  graph::Mesh mesh;                  // ranks the program runs on, one replica each
  DType compute = DType::f32;        // of products: bf16 rounds their operands, sums stay f32
  std::string precision = "highest"; // of f32 products: highest, high or default
};

// One module with one public function, main: its arguments are graph.inputs(), its results
// graph.outputs(), both in order; an output that takes over an input is tied to it by
// tf.aliasing_output. Equal graphs and options give equal bytes. Fails with unimplemented for an
// operation that has no form here (lower the graph first), with invalid_argument when collectives
// do not fit the mesh.
std::string emit(const graph::Graph& graph, const EmitOptions& options);

} // namespace dllm::pjrt

namespace dllm::pjrt::hlo {

// Types, values and lines of StableHLO text.

// i1 is what comparisons give; graphs have u8 in its place.
enum class Element : uint8_t { i1, ui8, i8, i32, ui32, ui64, bf16, f32 };

Element element_of(DType dtype); // fails with internal for types graphs do not compute with
const char* element_name(Element element);
int64_t element_size(Element element);
bool is_signed(Element element); // of integers
bool is_floating(Element element);

struct Type {
  Element element = Element::f32;
  Shape shape;

  std::string text() const; // "tensor<2x3xf32>"
  friend bool operator==(const Type&, const Type&) = default;
};

// One value in static single assignment form: %number.
struct Ssa {
  int64_t number = -1;
  Type type;

  bool defined() const { return number >= 0; }
  Element element() const { return type.element; }
  const Shape& shape() const { return type.shape; }
};

using Ssas = std::vector<Ssa>;

// Attributes as text.
std::string array_text(const std::vector<int64_t>& values); // "array<i64: 1, 2>"
std::string list_text(const std::vector<int64_t>& values);  // "[1, 2]"
// "dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>"; rows of equal length
std::string table_text(const std::vector<std::vector<int64_t>>& rows);

// A nested block: its arguments, and what it returns given them. Values of the enclosing regions
// may be used inside those of `while`, but not inside the small functions of reduce, sort, scatter.
struct Region {
  std::vector<Type> arguments;
  std::function<Ssas(const Ssas&)> body;
};

class Writer {
public:
  Ssas op(std::string_view name, const Ssas& operands, const std::vector<Type>& results,
          const std::string& attributes = {}, const std::vector<Region>& regions = {});
  Ssa op1(std::string_view name, const Ssas& operands, const Type& result,
          const std::string& attributes = {}, const std::vector<Region>& regions = {});

  // The same number everywhere, from the bit pattern of one element. Written once per region.
  Ssa splat(const Type& type, uint64_t bits);
  Ssa number(const Type& type, double value); // as the element type rounds it
  Ssa constant(const Tensor& literal);
  // This replica's number, ui32(). Written once per region.
  Ssa replica();

  // A function's arguments and its end.
  Ssa argument(const Type& type);
  void end_function(const Ssas& results);

  std::string take_text() { return std::move(text_); }

private:
  Ssa fresh(const Type& type) { return {next_++, type}; }
  void line(const std::string& line); // at the current depth
  void region(const Region& region);
  template <class Make> Ssa once(const std::string& key, Make make);

  std::string text_;
  int64_t next_ = 0;
  int depth_ = 4; // inside a module and a function
  // What is written once per region: a captured constant would be carried by the loop.
  std::vector<std::map<std::string, Ssa>> known_{1};
};

// What the emitter of an operation sees: its node, its operands, and ways to write lines.

// The values of one graph while its nodes are written into one region, and what an emitter sees of
// a node.

// One graph value. A truth value (u8 in graphs) that came from a comparison is kept as i1 and
// becomes 0 or 1 only where the number is needed.
struct Slot {
  Ssa plain;  // of the value's own type
  Ssa truth;  // i1, exactly the value: u8 0 or 1
  Ssa test;   // i1: value != 0, of a u8 value
  Ssa narrow; // bf16 of which an f32 value is the widening
};

class Scope {
public:
  Scope(const graph::Graph& graph, Writer& writer, const EmitOptions& options)
      : graph_(graph), w_(writer), options_(options),
        slots_(static_cast<size_t>(graph.value_count())) {}

  // Writes every node; inputs in the order of graph.inputs().
  void write(const std::vector<Slot>& inputs);

  Ssa plain(int32_t value);     // the value itself, made from i1 if need be
  Ssa predicate(int32_t value); // i1: value != 0
  Slot& slot(int32_t value) { return slots_[static_cast<size_t>(value)]; }
  Ssas plain_outputs();

  const graph::Graph& graph() const { return graph_; }
  Writer& writer() { return w_; }
  const EmitOptions& options() const { return options_; }

private:
  const graph::Graph& graph_;
  Writer& w_;
  const EmitOptions& options_;
  std::vector<Slot> slots_;
};

// A node about to be written.
class EmitCall {
public:
  EmitCall(Scope& scope, const graph::Node& node)
      : w(scope.writer()), node(node), a(node.attributes), scope_(scope) {}

  Writer& w;
  const graph::Node& node;
  const graph::Attributes& a;

  Ssa in(size_t index) { return scope_.plain(node.inputs[index]); }
  Ssa predicate(size_t index) { return scope_.predicate(node.inputs[index]); }
  // i1 where the operand is known to be 0 or 1 and is not there as a number: for operations that
  // only move elements.
  Ssa moved(size_t index);
  bool is_truth(size_t index) { return slot(index).truth.defined(); }
  Slot& slot(size_t index) { return scope_.slot(node.inputs[index]); }
  Type out_type(size_t index = 0) const;
  // i1 is taken as the truth form of a u8 result.
  void out(size_t index, const Ssa& value);
  void out(const Ssa& value) { out(0, value); }
  Slot& out_slot(size_t index) { return scope_.slot(node.outputs[index]); }

  const EmitOptions& options() const { return scope_.options(); }
  Scope& scope() { return scope_; }
  // The node that makes an operand, or null for an input of the graph.
  const graph::Node* producer(size_t index) const;
  // The one number an integer operand consists of, when it is written in the graph.
  std::optional<int64_t> same_integer(size_t index) const;

private:
  Scope& scope_;
};

// Short names for the operations of StableHLO that emitters use all the time. Binary functions take
// operands of one type; `like` versions make the number they need themselves.

namespace build {

enum class Order { eq, ne, lt, le, gt, ge };

Ssa unary(Writer& w, std::string_view name, const Ssa& x);                // "negate"
Ssa binary(Writer& w, std::string_view name, const Ssa& x, const Ssa& y); // "add"
Ssa number_like(Writer& w, const Ssa& x, double value);                   // splat of x's type
Ssa with(Writer& w, std::string_view name, const Ssa& x, double value);   // x op value

Ssa compare(Writer& w, Order order, const Ssa& x, const Ssa& y); // i1
Ssa compare_with(Writer& w, Order order, const Ssa& x, double value);
Ssa is_nan(Writer& w, const Ssa& x);
Ssa select(Writer& w, const Ssa& predicate, const Ssa& yes, const Ssa& no);

Ssa convert(Writer& w, const Ssa& x, Element element); // x itself when it is that already
Ssa bitcast(Writer& w, const Ssa& x, Element element);

Ssa iota(Writer& w, const Type& type, int64_t axis);
Ssa reshape(Writer& w, const Ssa& x, const Shape& shape); // x itself when it has it already
Ssa broadcast(Writer& w, const Ssa& x, const Shape& shape, const std::vector<int64_t>& axes);
Ssa slice(Writer& w, const Ssa& x, const std::vector<int64_t>& begin,
          const std::vector<int64_t>& end);
Ssa slice_axis(Writer& w, const Ssa& x, int64_t axis, int64_t begin, int64_t end);
Ssa pad(Writer& w, const Ssa& x, const Ssa& fill, const std::vector<int64_t>& low,
        const std::vector<int64_t>& high);
// `name` joins two elements; init: the bits it starts from.
Ssa reduce(Writer& w, std::string_view name, const Ssa& x, uint64_t init,
           const std::vector<int64_t>& axes);
// The region {(a, b): a op b} of reductions, scatters and collectives.
Region joining(Writer& w, std::string_view name, Element element);

} // namespace build

// Writes one operation.

using Emitter = void (*)(EmitCall&);

// Null: the operation has no StableHLO form and must be lowered first.
Emitter find_emitter(std::string_view op);

struct EmitterEntry {
  std::string_view op;
  Emitter emit;
};
// Every file of ops/ gives the list of its operations; emit.cpp joins them.
using EmitterList = std::span<const EmitterEntry>;

// Pieces that some emitters share.
namespace ops {

// Rows of the first axis, and elements along one: indices are clamped.
Ssa take_rows(Writer& w, const Ssa& table, const Ssa& indices);
Ssa take_along(Writer& w, const Ssa& x, const Ssa& indices, int64_t axis);
// One row of the first axis, read and replaced; index i32().
Ssa read_row(Writer& w, const Ssa& stacked, const Ssa& index);
Ssa write_row(Writer& w, const Ssa& stacked, const Ssa& row, const Ssa& index);
void emit_same(EmitCall& call); // the operand itself

} // namespace ops

} // namespace dllm::pjrt::hlo
