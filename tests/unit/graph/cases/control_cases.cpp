// Mesh operations on one rank, scan and while.

#include "unit/graph/cases/cases.h"

namespace dllm::graph::test {

// On one rank: types change, numbers do not.
void add_mesh(Cases& c) {
  const AxisSet data(Axis::data);
  c.add("vary", "", [&](B& b) { return Values{all_reduce(vary(b.f({3, 5}), data), data)}; });
  c.add("all_reduce", "", [&](B& b) { return Values{all_reduce(vary(b.f({3, 5}), data), data)}; });
  c.add("all_reduce_max", "", [&](B& b) {
    return Values{all_reduce_max(vary(b.f({3, 5}), data), data)};
  });
  c.add("all_gather", "equal", [&](B& b) {
    return Values{all_gather(vary(b.f({3, 5}), data), Axis::data, 1, 1, true)};
  });
  c.add("all_gather", "", [&](B& b) {
    return Values{all_reduce(all_gather(vary(b.f({3, 5}), data), Axis::data, 1, 1), data)};
  });
  c.add("reduce_scatter", "", [&](B& b) {
    return Values{all_reduce(reduce_scatter(vary(b.f({3, 5}), data), Axis::data, 0, 1), data)};
  });
  c.add("all_to_all", "", [&](B& b) {
    return Values{all_reduce(all_to_all(vary(b.f({3, 5}), data), Axis::data, 0, 1, 1), data)};
  });
  c.add("permute", "", [&](B& b) {
    return Values{all_reduce(permute(vary(b.f({3, 5}), data), Axis::data, {0}), data)};
  });
  c.add("axis_index", "",
        [&](B& b) { return Values{all_reduce(axis_index(b.graph(), Axis::data), data)}; });
}
namespace {

// carry' = tanh(carry w + bias) + layer, result = carry * layer; w is a const, layer runs along.
std::shared_ptr<Graph> cell(int64_t n) {
  auto body = std::make_shared<Graph>("cell");
  const Value carry = body->input("carry", DType::f32, {2, n}),
              step = body->input("step", DType::i32, {});
  const Value layer = body->input("layer", DType::f32, {n}),
              w = body->input("w", DType::f32, {n, n});
  const Value next = add(tanh(linear(carry, w)), layer);
  body->output("next", next);
  body->output("next step", add(step, scalar_i32(*body, 1)));
  body->output("result", multiply(next, add(carry, convert(step, DType::f32))));
  return body;
}

} // namespace

void add_control(Cases& c) {
  for (int variant = 0; variant < 4; ++variant) {
    ScanOptions options;
    options.reverse = variant % 2 == 1;
    options.remat = variant >= 2;
    options.begin = variant == 0 ? 0 : 1;
    options.end = variant == 0 ? -1 : 4;
    const std::string label =
        std::string(options.reverse ? "reverse" : "forward") + (options.remat ? " remat" : "");
    c.add("scan", label, [&](B& b) {
      const ScanResult made =
          scan(cell(3), {b.f({2, 3}), b.ints({}, {1})}, {b.f({5, 3})}, {b.f({3, 3})}, 5, options);
      return Values{made.carry[0], made.carry[1], made.stacked[0]};
    });
    c.add("scan", "nested " + label, [&](B& b) {
      auto outer = std::make_shared<Graph>("outer");
      const Value x = outer->input("x", DType::f32, {2, 3}),
                  layers = outer->input("layers", DType::f32, {5, 3});
      const Value w = outer->input("w", DType::f32, {3, 3});
      const ScanResult inner =
          scan(cell(3), {multiply(x, x), scalar_i32(*outer, 0)}, {layers}, {w}, 5, options);
      outer->output("x", tanh(inner.carry[0]));
      outer->output("sum", sum(multiply(inner.stacked[0], inner.stacked[0]), {0}));
      const ScanResult made =
          scan(outer, {b.f({2, 3}, -0.5, 0.5)}, {b.f({3, 5, 3}, -0.5, 0.5)}, {b.f({3, 3})}, 3,
               {0, -1, !options.reverse, variant == 1 || variant == 2});
      return Values{made.carry[0], made.stacked[0]};
    });
  }
  c.add("scan", "empty range", [&](B& b) {
    const ScanResult made = scan(cell(3), {b.f({2, 3}), b.ints({}, {1})}, {b.f({5, 3})},
                                 {b.f({3, 3})}, 5, {2, 2, false, false});
    return Values{made.carry[0], made.stacked[0]};
  });
  c.add("while", "", [](B& b) {
    auto cond = std::make_shared<Graph>("cond"), body = std::make_shared<Graph>("halve");
    for (Graph* graph : {cond.get(), body.get()}) {
      const Value x = graph->input("x", DType::f32, {3}), n = graph->input("n", DType::i32, {});
      const Value limit = graph->input("limit", DType::i32, {});
      if (graph == cond.get()) {
        graph->output("go", less(n, limit));
      } else {
        graph->output("x", multiply(x, scalar(*graph, 0.5f)));
        graph->output("n", add(n, scalar_i32(*graph, 1)));
      }
    }
    const Values made = while_loop(cond, body, {b.fixed({3}), b.ints({}, {0})}, {b.ints({}, {5})});
    return made;
  });
}

} // namespace dllm::graph::test
