// Reductions, ordering, indexing, products of plain arrays.

#include "unit/graph/cases/cases.h"

namespace dllm::graph::test {

void add_reductions(Cases& c) {
  using Reduce = Value (*)(Value, std::vector<int64_t>, bool);
  for (const auto& [op, fn] :
       {std::pair<const char*, Reduce>{"sum", sum}, {"max", max}, {"min", min}}) {
    const Reduce call = fn;
    c.add(op, "axes", [&](B& b) {
      const Value x = b.f({3, 5, 7});
      return Values{call(x, {-1}, false),   call(x, {0}, true),
                    call(x, {0, 2}, false), call(x, {0, 1, 2}, false),
                    call(x, {1}, false),    call(b.i({3, 5}, -9, 9), {1}, false)};
    });
    c.add(op, "long", [&](B& b) { return Values{call(b.fixed({2, 1037}), {1}, false)}; });
  }
  c.add("argmax", "", [](B& b) {
    return Values{argmax(b.f({3, 5, 7}), 1), argmax(b.f({3, 37}), -1),
                  argmax(b.i({40, 3}, 0, 3), 0)};
  });
  c.add("cumsum", "", [](B& b) {
    return Values{cumsum(b.f({3, 5, 7}), 1), cumsum(b.f({9}), 0), cumsum(b.i({9, 2}, 0, 4), 0)};
  });
  c.add("top_k", "", [](B& b) {
    const TopK t = top_k(b.f({3, 17}), 4), all = top_k(b.f({5}), 5);
    return Values{t.values, t.indices, all.values, all.indices};
  });
  c.add("top_k", "ties", [](B& b) {
    const TopK t = top_k(convert(b.i({4, 9}, 0, 3), DType::f32), 5);
    return Values{t.values, t.indices};
  });
  for (bool descending : {false, true}) {
    c.add("sort", descending ? "descending" : "ascending", [&](B& b) {
      const TopK t = sort(b.f({3, 17}), descending), ties = sort(b.i({2, 20}, 0, 4), descending);
      return Values{t.values, t.indices, ties.values, ties.indices};
    });
    c.add("sort", descending ? "i32 descending" : "i32 ascending", [&](B& b) {
      const TopK t = sort(b.i({3, 40}, -99, 99), descending);
      return Values{t.values, t.indices};
    });
  }
}

void add_indexing(Cases& c) {
  c.add("take", "f32", [](B& b) {
    return Values{take(b.f({5, 3}), b.i({2, 4}, 0, 5)), take(b.f({5}), b.ints({3}, {-1, 9, 2}))};
  });
  c.add("take", "shared table", [](B& b) {
    const Value table = b.f({5, 3}), ids = b.ints({4}, {1, 4, 1, 9});
    return Values{linear(take(table, ids), table)};
  });
  c.add("take", "stored", [](B& b) {
    return Values{take(b.bf16({5, 3}), b.i({4}, 0, 5)),
                  take(b.i8({5, 3}), b.i({4}, 0, 5), b.fixed({5}, 0, 1)),
                  take(b.i({5, 2}, 0, 99), b.i({4}, 0, 5))};
  });
  c.add("take_along", "", [](B& b) {
    return Values{take_along(b.f({3, 5, 2}), b.i({3, 4, 2}, 0, 5), 1),
                  take_along(b.f({3, 5}), b.ints({3, 1}, {-2, 9, 1}), -1)};
  });
  c.add("scatter_add", "", [](B& b) {
    return Values{scatter_add(b.f({5, 3}), b.ints({6}, {0, 3, 3, -1, 5, 4}), b.f({6, 3})),
                  scatter_add(b.i({4}, 0, 9), b.i({7}, 0, 4), b.i({7}, 0, 9))};
  });
  c.add("scatter_set", "", [](B& b) {
    return Values{scatter_set(b.f({5, 3}), b.ints({6}, {0, 3, 3, -1, 5, 4}), b.f({6, 3})),
                  scatter_set(b.i({4}, 0, 9), b.i({7}, 0, 4), b.i({7}, 0, 9))};
  });
  c.add("dot", "", [](B& b) {
    return Values{dot(b.f({5, 7}), b.f({7, 3})), dot(b.f({2, 1, 3, 5}), b.f({4, 5, 2})),
                  dot(b.f({1, 3}), b.f({3, 1}))};
  });
}

} // namespace dllm::graph::test
