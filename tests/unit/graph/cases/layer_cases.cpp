// Products and rows of a layer, with their gradients; the optimizer.

#include "unit/graph/cases/cases.h"

namespace dllm::graph::test {

void add_products(Cases& c) {
  c.add("linear", "plain", [](B& b) {
    const Value x = b.f({2, 3, 7}), w = b.f({5, 7});
    return Values{linear(x, w)};
  });
  c.add("linear", "bias", [](B& b) {
    const Value x = b.f({3, 17}), w = b.f({19, 17}), bias = b.f({19});
    return Values{linear(x, w, bias)};
  });
  c.add("linear", "bf16", [](B& b) {
    const Value x = b.f({3, 7}), w = b.bf16({5, 7}), bias = b.f({5});
    return Values{linear(x, w, bias)};
  });
  c.add("linear", "i8", [](B& b) {
    const Value x = b.f({3, 7}), w = b.i8({5, 7}), bias = b.f({5}), scale = b.fixed({5}, 0, 0.01);
    return Values{linear(x, w, bias, scale)};
  });
  const auto input_grad = [](Value dy, Value w, Value scale) {
    Values inputs{dy, w};
    if (scale.defined()) inputs.push_back(scale);
    return Cases::raw("linear_input_grad", inputs, {{"has_scale", scale.defined()}});
  };
  c.add("linear_input_grad", "f32", [&](B& b) {
    return input_grad(b.f({2, 3, 5}), b.f({5, 7}), {});
  });
  c.add("linear_input_grad", "bf16", [&](B& b) {
    return input_grad(b.f({3, 17}), b.bf16({17, 19}), {});
  });
  c.add("linear_input_grad", "i8", [&](B& b) {
    return input_grad(b.f({3, 5}), b.i8({5, 7}), b.fixed({5}, 0, 0.01));
  });
  c.add("linear_weight_grad", "", [&](B& b) {
    return Cases::raw("linear_weight_grad", {b.f({2, 3, 5}), b.f({2, 3, 7})}, {});
  });

  for (bool weight : {false, true}) {
    const std::string label = weight ? "weight" : "bare";
    c.add("rms_norm", label, [&](B& b) {
      const Value x = b.f({2, 3, 17}), w = weight ? b.f({17}) : Value{};
      return Values{rms_norm(x, w, 1e-5f)};
    });
    c.add("rms_norm_grad", label, [&](B& b) {
      Values inputs{b.f({3, 17}), b.f({3, 17})};
      if (weight) inputs.push_back(b.f({17}));
      return Cases::raw("rms_norm_grad", inputs, {{"eps", 1e-5}, {"has_weight", weight}});
    });
    c.add("layer_norm", label, [&](B& b) {
      const Value x = b.f({2, 3, 17}), w = weight ? b.f({17}) : Value{},
                  bias = weight ? b.f({17}) : Value{};
      return Values{layer_norm(x, w, bias, 1e-5f)};
    });
    c.add("layer_norm_grad", label, [&](B& b) {
      Values inputs{b.f({3, 17}), b.f({3, 17})};
      if (weight) inputs.push_back(b.f({17}));
      return Cases::raw("layer_norm_grad", inputs,
                        {{"eps", 1e-5}, {"has_weight", weight}, {"has_bias", weight}});
    });
  }
  for (bool interleaved : {false, true}) {
    c.add("rope", interleaved ? "interleaved" : "half", [&](B& b) {
      const Value x = b.f({2, 3, 2, 10}), freq = b.fixed({3}, 0.1, 1);
      return Values{rope(x, b.i({2, 3}, 0, 50), freq, interleaved, 1.1f),
                    rope(x, b.i({3}, 0, 9), b.fixed({5}, 0, 1), interleaved)};
    });
    c.add("rope", interleaved ? "inverse interleaved" : "inverse half", [&](B& b) {
      return Cases::raw("rope", {b.f({1, 3, 2, 6}), b.i({1, 3}, 0, 50), b.fixed({3}, 0.1, 1)},
                        {{"interleaved", interleaved}, {"amplitude", 1.1}, {"inverse", true}});
    });
  }
  for (const char* kind : {"silu", "gelu", "gelu_tanh", "relu"}) {
    c.add("activation", kind, [&](B& b) { return Values{activation(b.f({3, 37}, -4, 4), kind)}; });
    c.add("activation_grad", kind, [&](B& b) {
      return Cases::raw("activation_grad", {b.f({3, 37}), b.f({3, 37})},
                        {{"kind", std::string(kind)}});
    });
    c.add("gated_activation", kind, [&](B& b) {
      const Value gate = b.f({3, 37}, -4, 4);
      return Values{gated_activation(gate, b.f({3, 37}), kind)};
    });
    c.add("gated_activation_grad", kind, [&](B& b) {
      return Cases::raw("gated_activation_grad", {b.f({3, 37}), b.f({3, 37}), b.f({3, 37})},
                        {{"kind", std::string(kind)}});
    });
  }
}

void add_training(Cases& c) {
  for (bool decay : {false, true}) {
    c.add("adamw_update", decay ? "decay" : "no decay", [&](B& b) {
      const Value scalars = b.given(Tensor::from(
          Shape{8}, std::vector<float>{0.1f, 0.9f, 0.99f, 1e-8f, 0.1f, 0.1f, 0.01f, 0.5f}));
      const Value parameter = b.fixed({3, 37}), gradient = b.fixed({3, 37}),
                  first = b.fixed({3, 37});
      const AdamW made =
          adamw_update(parameter, gradient, first, b.fixed({3, 37}, 0, 1), scalars, decay);
      return Values{made.parameter, made.first, made.second};
    });
  }
  c.add("sum_of_squares", "", [](B& b) { return Values{sum_of_squares(b.f({3, 37}))}; });
  c.add("sum_of_squares", "chunks",
        [](B& b) { return Values{sum_of_squares(b.fixed({70001}, -0.1, 0.1))}; });
}

} // namespace dllm::graph::test
