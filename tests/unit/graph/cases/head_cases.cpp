// Operations on rows of logits.

#include "unit/graph/cases/cases.h"

namespace dllm::graph::test {

void add_head(Cases& c) {
  struct Form {
    const char* label;
    bool bias, count;
    DType weight;
    float softcap = 0;
  };
  const Form forms[] = {{"plain", false, false, DType::f32},
                        {"bias count", true, true, DType::f32},
                        {"bf16", false, true, DType::bf16},
                        {"i8", true, false, DType::i8},
                        {"softcap", false, true, DType::f32, 3.0f}};
  for (const Form& form : forms) {
    const auto weight_of = [&](B& b) {
      return form.weight == DType::f32    ? b.f({11, 3})
             : form.weight == DType::bf16 ? b.bf16({11, 3})
                                          : b.i8({11, 3});
    };
    c.add(
        "linear_cross_entropy", form.label,
        [&](B& b) {
          const Value x = b.f({6, 3}), weight = weight_of(b),
                      bias = form.bias ? b.f({11}) : Value{};
          const Value scale = form.weight == DType::i8 ? b.fixed({11}, 0, 0.02) : Value{};
          const Value targets = b.ints({6}, {0, 10, -1, 4, 11, 7}),
                      count = form.count ? b.ints({}, {5}) : Value{};
          const Value nll =
              linear_cross_entropy(x, weight, bias, scale, targets, count, form.softcap);
          const Node& node = b.graph().nodes()[static_cast<size_t>(b.graph().producer(nll.id))];
          return Values{nll, b.graph().value(node.outputs[1])};
        },
        1);
    c.add("linear_cross_entropy", std::string("log sum exp ") + form.label, [&](B& b) {
      const Value x = b.f({6, 3}), weight = weight_of(b), bias = form.bias ? b.f({11}) : Value{};
      const Value scale = form.weight == DType::i8 ? b.fixed({11}, 0, 0.02) : Value{};
      const Value targets = b.ints({6}, {0, 10, -1, 4, 11, 7}),
                  count = form.count ? b.ints({}, {5}) : Value{};
      const CrossEntropy made =
          linear_cross_entropy_parts(x, weight, bias, scale, targets, count, form.softcap);
      return Values{made.nll, made.log_sum_exp};
    });
    for (const bool joined : {false, true}) {
      const char* op = joined ? "linear_cross_entropy_with_grad" : "linear_cross_entropy_grad";
      c.add(op, form.label, [&](B& b) {
        const Value x = b.fixed({6, 3});
        const Value weight = form.weight == DType::f32 ? b.fixed({11, 3}) : weight_of(b);
        const Value bias = form.bias ? b.fixed({11}) : Value{};
        const Value scale = form.weight == DType::i8 ? b.fixed({11}, 0, 0.02) : Value{};
        const Value targets = b.ints({6}, {0, 10, -1, 4, 11, 7}),
                    count = form.count ? b.ints({}, {5}) : Value{};
        const Value nll =
            linear_cross_entropy(x, weight, bias, scale, targets, count, form.softcap);
        const Node node = b.graph().nodes()[static_cast<size_t>(b.graph().producer(nll.id))];
        Values inputs;
        for (int32_t id : node.inputs) inputs.push_back(b.graph().value(id));
        if (!joined) inputs.push_back(b.graph().value(node.outputs[1]));
        inputs.push_back(b.f({6}));
        Attributes attributes = node.attributes;
        attributes.set("want_weight", form.weight == DType::f32);
        attributes.set("want_bias", form.bias);
        return Cases::raw(op, inputs, attributes);
      });
    }
    for (const bool own : {false, true}) {
      if (own && !form.count) continue;
      c.add(
          "token_statistics", own ? std::string("own bans ") + form.label : form.label,
          [&](B& b) {
            TokenStatisticsInputs in;
            in.x = b.f({6, 3});
            in.weight = weight_of(b);
            if (form.bias) in.bias = b.f({11});
            if (form.weight == DType::i8) in.scale = b.fixed({11}, 0, 0.02);
            if (form.count) in.count = b.ints({}, {5});
            in.temperature =
                b.given(Tensor::from(Shape{6}, std::vector<float>{0, 1, 0.7f, 1.5f, 1, 1}));
            const Value top_k = b.ints({6}, {0, 0, 3, 0, 4, 1});
            const Value top_p =
                b.given(Tensor::from(Shape{6}, std::vector<float>{1, 1, 1, 0.5f, 0.8f, 0.01f}));
            in.filters = {{"top_k", top_k}, {"top_p", top_p}};
            if (form.bias) std::swap(in.filters[0], in.filters[1]);
            in.uniform = b.fixed({6}, 0, 1);
            in.softcap = form.softcap;
            const std::vector<uint8_t> banned = {0, 1, 0, 0, 1, 1, 0, 0, 0, 1, 0};
            if (form.count && !own) in.banned = b.given(Tensor::from(Shape{11}, banned));
            if (own) { // one id more in each row
              std::vector<uint8_t> rows;
              for (size_t r = 0; r < 6; ++r) {
                rows.insert(rows.end(), banned.begin(), banned.end());
                rows[r * 11 + r + 2] = 1;
              }
              in.banned = b.given(Tensor::from(Shape{6, 11}, rows));
            }
            in.shaped = true;
            const TokenStatistics s = token_statistics(in, 3);
            return Values{s.argmax,      s.max_prob,      s.log_sum_exp,   s.entropy,
                          s.top_ids,     s.top_probs,     s.draw,          s.draw_prob,
                          s.shaped_prob, s.shaped_margin, s.shaped_entropy};
          },
          0);
    }
  }
}

} // namespace dllm::graph::test
