#include "pjrt/emit/emit.h"

#include <algorithm>
#include <fmt/format.h>

namespace dllm::pjrt::hlo::build {
namespace {

std::string full_name(std::string_view name) {
  return fmt::format("stablehlo.{}", name);
}

const char* order_name(Order order) {
  switch (order) {
  case Order::eq: return "EQ";
  case Order::ne: return "NE";
  case Order::lt: return "LT";
  case Order::le: return "LE";
  case Order::gt: return "GT";
  case Order::ge: return "GE";
  }
  return "";
}

} // namespace

Ssa unary(Writer& w, std::string_view name, const Ssa& x) {
  return w.op1(full_name(name), {x}, x.type);
}

Ssa binary(Writer& w, std::string_view name, const Ssa& x, const Ssa& y) {
  return w.op1(full_name(name), {x, y}, x.type);
}

Ssa number_like(Writer& w, const Ssa& x, double value) {
  return w.number(x.type, value);
}

Ssa with(Writer& w, std::string_view name, const Ssa& x, double value) {
  return binary(w, name, x, number_like(w, x, value));
}

Ssa compare(Writer& w, Order order, const Ssa& x, const Ssa& y) {
  const char* kind = is_floating(x.element()) ? "FLOAT"
                     : is_signed(x.element()) ? "SIGNED"
                                              : "UNSIGNED";
  return w.op1("stablehlo.compare", {x, y}, {Element::i1, x.shape()},
               fmt::format("comparison_direction = #stablehlo<comparison_direction {}>, "
                           "compare_type = #stablehlo<comparison_type {}>",
                           order_name(order), kind));
}

Ssa compare_with(Writer& w, Order order, const Ssa& x, double value) {
  return compare(w, order, x, number_like(w, x, value));
}

Ssa is_nan(Writer& w, const Ssa& x) {
  return compare(w, Order::ne, x, x);
}

Ssa select(Writer& w, const Ssa& predicate, const Ssa& yes, const Ssa& no) {
  return w.op1("stablehlo.select", {predicate, yes, no}, yes.type);
}

Ssa convert(Writer& w, const Ssa& x, Element element) {
  if (x.element() == element) return x;
  return w.op1("stablehlo.convert", {x}, {element, x.shape()});
}

Ssa bitcast(Writer& w, const Ssa& x, Element element) {
  if (x.element() == element) return x;
  return w.op1("stablehlo.bitcast_convert", {x}, {element, x.shape()});
}

Ssa iota(Writer& w, const Type& type, int64_t axis) {
  return w.op1("stablehlo.iota", {}, type, fmt::format("iota_dimension = {} : i64", axis));
}

Ssa reshape(Writer& w, const Ssa& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  return w.op1("stablehlo.reshape", {x}, {x.element(), shape});
}

Ssa broadcast(Writer& w, const Ssa& x, const Shape& shape, const std::vector<int64_t>& axes) {
  return w.op1("stablehlo.broadcast_in_dim", {x}, {x.element(), shape},
               "broadcast_dimensions = " + array_text(axes));
}

Ssa slice(Writer& w, const Ssa& x, const std::vector<int64_t>& begin,
          const std::vector<int64_t>& end) {
  std::vector<int64_t> dims;
  for (size_t i = 0; i < begin.size(); ++i) dims.push_back(end[i] - begin[i]);
  return w.op1("stablehlo.slice", {x}, {x.element(), Shape(std::move(dims))},
               fmt::format("start_indices = {}, limit_indices = {}, strides = {}",
                           array_text(begin), array_text(end),
                           array_text(std::vector<int64_t>(begin.size(), 1))));
}

Ssa slice_axis(Writer& w, const Ssa& x, int64_t axis, int64_t begin, int64_t end) {
  std::vector<int64_t> from(x.shape().dims().size(), 0), to = x.shape().dims();
  from[static_cast<size_t>(axis)] = begin;
  to[static_cast<size_t>(axis)] = end;
  return slice(w, x, from, to);
}

Ssa pad(Writer& w, const Ssa& x, const Ssa& fill, const std::vector<int64_t>& low,
        const std::vector<int64_t>& high) {
  std::vector<int64_t> dims = x.shape().dims();
  for (size_t i = 0; i < dims.size(); ++i) dims[i] += low[i] + high[i];
  return w.op1("stablehlo.pad", {x, fill}, {x.element(), Shape(std::move(dims))},
               fmt::format("edge_padding_low = {}, edge_padding_high = {}, interior_padding = {}",
                           array_text(low), array_text(high),
                           array_text(std::vector<int64_t>(low.size(), 0))));
}

Region joining(Writer& w, std::string_view name, Element element) {
  const Type scalar{element, Shape{}};
  return {{scalar, scalar},
          [&w, name](const Ssas& a) { return Ssas{binary(w, name, a[0], a[1])}; }};
}

Ssa reduce(Writer& w, std::string_view name, const Ssa& x, uint64_t init,
           const std::vector<int64_t>& axes) {
  if (axes.empty()) return x;
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < x.shape().rank(); ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) dims.push_back(x.shape().dim(i));
  }
  const Ssa start = w.splat({x.element(), Shape{}}, init);
  return w.op1("stablehlo.reduce", {x, start}, {x.element(), Shape(std::move(dims))},
               "dimensions = " + array_text(axes), {joining(w, name, x.element())});
}

} // namespace dllm::pjrt::hlo::build
