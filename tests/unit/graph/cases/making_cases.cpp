// Values made, moved and converted.

#include "unit/graph/cases/cases.h"

namespace dllm::graph::test {

void add_making(Cases& c) {
  c.add("constant", "", [](B& b) {
    return Values{
        constant(b.graph(), Tensor::from(Shape{2, 3}, std::vector<float>{1, -2, 0.5f, 3, 4, 5}))};
  });
  for (DType dtype : {DType::f32, DType::i32, DType::u32}) {
    c.add("iota", dtype_name(dtype), [&](B& b) {
      return Values{iota(b.graph(), Shape{3, 5, 2}, dtype, 1)};
    });
  }
  c.add("broadcast", "", [](B& b) {
    return Values{broadcast(b.f({3, 1, 5}), {2, 3, 4, 5}), broadcast(b.f({}), {7}),
                  broadcast(b.i({1}, 0, 9), {3, 2})};
  });
  c.add("reshape", "", [](B& b) { return Values{reshape(b.f({3, 4, 5}), {5, 12})}; });
  c.add("transpose", "", [](B& b) {
    return Values{transpose(b.f({3, 4, 5, 2}), {2, 0, 3, 1}), transpose(b.f({17, 33}), {1, 0}),
                  transpose(b.u8({3, 7}), {1, 0})};
  });
  c.add("slice", "", [](B& b) {
    return Values{slice(b.f({3, 7, 5}), {1, 2, 0}, {3, 6, 5}), slice_axis(b.i({9}, 0, 5), 0, 2, 2)};
  });
  c.add("pad", "", [](B& b) { return Values{pad(b.f({3, 2}), {1, 0}, {0, 3}, b.f({}))}; });
  c.add("concat", "", [](B& b) {
    return Values{concat({b.f({3, 1, 2}), b.f({3, 4, 2}), b.f({3, 2, 2})}, 1)};
  });
  c.add("reverse", "", [](B& b) { return Values{reverse(b.f({3, 5, 2}), 1)}; });
  for (int32_t begin : {1, -3, 9}) { // inside, and clamped at both ends
    c.add("dynamic_slice", std::to_string(begin), [&](B& b) {
      return Values{dynamic_slice(b.f({5, 7}), {b.ints({}, {begin}), b.ints({}, {2})}, {2, 3})};
    });
    c.add("dynamic_update_slice", std::to_string(begin), [&](B& b) {
      return Values{
          dynamic_update_slice(b.f({5, 7}), b.f({2, 3}), {b.ints({}, {begin}), b.ints({}, {2})})};
    });
  }
  c.add("convert", "", [](B& b) {
    const Value x = b.f({3, 5}, -9, 9);
    return Values{convert(convert(b.i({7}, -9, 9), DType::f32), DType::f32),
                  convert(x, DType::i32),
                  convert(b.bf16({5}), DType::f32),
                  convert(b.i8({5}), DType::f32),
                  convert(b.u8({5}), DType::i32),
                  convert(b.u32({5}), DType::i32),
                  convert(x, DType::u8),
                  convert(b.fixed({9}), DType::bf16)};
  });
  c.add("bitcast", "", [](B& b) {
    return Values{bitcast(b.f({5}), DType::u32), bitcast(b.i({5}, -9, 9), DType::u32),
                  bitcast(b.u32({5}), DType::i32)};
  });
  c.add("random_bits", "", [](B& b) {
    const Value key = b.u32({2});
    return Values{random_bits(key, {3, 5}), random_uniform(key, {7})};
  });
  c.add("random_bits", "of_rows", [](B& b) {
    const Value keys = b.u32({3, 2});
    return Values{random_bits(keys, {3, 5, 7}), random_uniform(keys, {3, 1})};
  });
  c.add("stop_gradient", "",
        [](B& b) { return Values{multiply(b.f({5}), stop_gradient(exp(b.fixed({5}))))}; });
  c.add("barrier", "", [](B& b) { return Values{barrier(b.f({5}))}; });
}

} // namespace dllm::graph::test
