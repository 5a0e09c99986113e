#pragma once
// emit() writes a graph as the text of one StableHLO module, which every plugin's compiler reads.

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
  graph::Mesh mesh;                  // one replica of the program runs on each rank
  DType compute = DType::f32;        // type of the operands of products, f32 or bf16; sums stay f32
  std::string precision = "highest"; // precision of f32 products: highest, high or default
};

// Returns one module with one public function, main. Its arguments are graph.inputs() and its
// results graph.outputs(), both in order. The attribute tf.aliasing_output of an argument names the
// output that takes it over. Equal graphs and options give equal bytes. Fails with unimplemented
// for an operation without a StableHLO form (lower the graph first), with invalid_argument when
// collectives do not fit the mesh.
std::string emit(const graph::Graph& graph, const EmitOptions& options);

} // namespace dllm::pjrt

namespace dllm::pjrt::hlo {

// Element types of StableHLO. Comparisons result in i1, for which graphs have u8.
enum class Element : uint8_t { i1, ui8, i8, i32, ui32, ui64, bf16, f32 };

Element element_of(DType dtype); // fails with internal for types that graphs do not compute with
const char* element_name(Element element);
int64_t element_size(Element element);
bool is_signed(Element element); // true for signed integers
bool is_floating(Element element);

struct Type {
  Element element = Element::f32;
  Shape shape;

  std::string text() const; // "tensor<2x3xf32>"
  friend bool operator==(const Type&, const Type&) = default;
};

// One value in static single assignment form, written as %number.
struct Ssa {
  int64_t number = -1;
  Type type;

  bool defined() const { return number >= 0; }
  Element element() const { return type.element; }
  const Shape& shape() const { return type.shape; }
};

using Ssas = std::vector<Ssa>;

// These functions write attributes as text.
std::string array_text(const std::vector<int64_t>& values); // "array<i64: 1, 2>"
std::string list_text(const std::vector<int64_t>& values);  // "[1, 2]"
// "dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>"; all rows have the same length.
std::string table_text(const std::vector<std::vector<int64_t>>& rows);

// A nested block of an operation. The regions of `while` may use values of the enclosing regions;
// the small functions of reduce, sort and scatter may not.
struct Region {
  std::vector<Type> arguments;
  std::function<Ssas(const Ssas&)> body; // writes the block and returns its results
};

// Appends operations to the text of one function.
class Writer {
public:
  Ssas op(std::string_view name, const Ssas& operands, const std::vector<Type>& results,
          const std::string& attributes = {}, const std::vector<Region>& regions = {});
  Ssa op1(std::string_view name, const Ssas& operands, const Type& result,
          const std::string& attributes = {}, const std::vector<Region>& regions = {});

  // Writes a constant whose elements all have the bit pattern `bits`, once per region.
  Ssa splat(const Type& type, uint64_t bits);
  // The same for a number, which is rounded to the element type.
  Ssa number(const Type& type, double value);
  Ssa constant(const Tensor& literal);
  // Writes the number of this replica, ui32(), once per region.
  Ssa replica();

  // Declares an argument of the function; end_function() returns the results.
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
  // The constants of each open region. A loop would carry a constant that it captured, so every
  // region writes its own.
  std::vector<std::map<std::string, Ssa>> known_{1};
};

// The forms in which one value of a graph has been written. The result of a comparison (u8 in
// graphs) is kept as i1 and converted to 0 or 1 only where the number is needed.
struct Slot {
  Ssa plain;  // the value in its own type
  Ssa truth;  // i1 form of a u8 value that is 0 or 1
  Ssa test;   // i1: value != 0, for any u8 value
  Ssa narrow; // the bf16 value that was widened to this f32 value
};

// The values of one graph while its nodes are written into one region.
class Scope {
public:
  Scope(const graph::Graph& graph, Writer& writer, const EmitOptions& options)
      : graph_(graph), w_(writer), options_(options),
        slots_(static_cast<size_t>(graph.value_count())) {}

  // Writes every node. `inputs` has the order of graph.inputs().
  void write(const std::vector<Slot>& inputs);

  Ssa plain(int32_t value);     // the value in its own type; converts the i1 form if necessary
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

// What an emitter gets: the node to write, its operands, and the writer.
class EmitCall {
public:
  EmitCall(Scope& scope, const graph::Node& node)
      : w(scope.writer()), node(node), a(node.attributes), scope_(scope) {}

  Writer& w;
  const graph::Node& node;
  const graph::Attributes& a;

  Ssa in(size_t index) { return scope_.plain(node.inputs[index]); }
  Ssa predicate(size_t index) { return scope_.predicate(node.inputs[index]); }
  // Returns the operand for an operation that only moves elements: in its i1 form if it has no
  // other, else in its own type.
  Ssa moved(size_t index);
  bool is_truth(size_t index) { return slot(index).truth.defined(); }
  Slot& slot(size_t index) { return scope_.slot(node.inputs[index]); }
  Type out_type(size_t index = 0) const;
  // Sets a result. An i1 value becomes the truth form of a u8 result.
  void out(size_t index, const Ssa& value);
  void out(const Ssa& value) { out(0, value); }
  Slot& out_slot(size_t index) { return scope_.slot(node.outputs[index]); }

  const EmitOptions& options() const { return scope_.options(); }
  Scope& scope() { return scope_; }
  // Returns the node that computes an operand, or null for an input of the graph.
  const graph::Node* producer(size_t index) const;
  // Returns the number in all elements of an i32 or u32 operand, if the operand is a constant of
  // the graph.
  std::optional<int64_t> same_integer(size_t index) const;

private:
  Scope& scope_;
};

// Short names for the operations of StableHLO that emitters use most. The operands of a binary
// function have the same type.

namespace build {

enum class Order { eq, ne, lt, le, gt, ge };

// name: "negate", "add", ...
Ssa unary(Writer& w, std::string_view name, const Ssa& x);
Ssa binary(Writer& w, std::string_view name, const Ssa& x, const Ssa& y);
// Writes `value` in the type and shape of x.
Ssa number_like(Writer& w, const Ssa& x, double value);
// Writes binary(name, x, number_like(x, value)).
Ssa with(Writer& w, std::string_view name, const Ssa& x, double value);

// The results of comparisons are i1.
Ssa compare(Writer& w, Order order, const Ssa& x, const Ssa& y);
Ssa compare_with(Writer& w, Order order, const Ssa& x, double value);
Ssa is_nan(Writer& w, const Ssa& x);
Ssa select(Writer& w, const Ssa& predicate, const Ssa& yes, const Ssa& no);

// convert() and reshape() return x itself if it has the element type or shape already.
Ssa convert(Writer& w, const Ssa& x, Element element);
Ssa bitcast(Writer& w, const Ssa& x, Element element);

Ssa iota(Writer& w, const Type& type, int64_t axis);
Ssa reshape(Writer& w, const Ssa& x, const Shape& shape);
Ssa broadcast(Writer& w, const Ssa& x, const Shape& shape, const std::vector<int64_t>& axes);
Ssa slice(Writer& w, const Ssa& x, const std::vector<int64_t>& begin,
          const std::vector<int64_t>& end);
Ssa slice_axis(Writer& w, const Ssa& x, int64_t axis, int64_t begin, int64_t end);
Ssa pad(Writer& w, const Ssa& x, const Ssa& fill, const std::vector<int64_t>& low,
        const std::vector<int64_t>& high);
// Reduces x over `axes` with the binary operation `name`. init: bit pattern of the start value.
Ssa reduce(Writer& w, std::string_view name, const Ssa& x, uint64_t init,
           const std::vector<int64_t>& axes);
// Returns the region (a, b) -> name(a, b) of a reduction, scatter or collective.
Region joining(Writer& w, std::string_view name, Element element);

} // namespace build

// Writes one node.
using Emitter = void (*)(EmitCall&);

// Returns null for an operation that has no StableHLO form and must be lowered first.
Emitter find_emitter(std::string_view op);

struct EmitterEntry {
  std::string_view op;
  Emitter emit;
};
// Every file of ops/ has one or more lists of its operations; emit.cpp joins the lists.
using EmitterList = std::span<const EmitterEntry>;

// Functions that several emitters share.
namespace ops {

// Read rows of the first axis, and elements along `axis`. Indices are clamped.
Ssa take_rows(Writer& w, const Ssa& table, const Ssa& indices);
Ssa take_along(Writer& w, const Ssa& x, const Ssa& indices, int64_t axis);
// Read and replace one row of the first axis; index i32().
Ssa read_row(Writer& w, const Ssa& stacked, const Ssa& index);
Ssa write_row(Writer& w, const Ssa& stacked, const Ssa& row, const Ssa& index);
void emit_same(EmitCall& call); // passes the operand on as the result

} // namespace ops

} // namespace dllm::pjrt::hlo
