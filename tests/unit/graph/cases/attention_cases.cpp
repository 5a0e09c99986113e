// Attention under every kind of mask.

#include "unit/graph/cases/cases.h"

namespace dllm::graph::test {
namespace {

struct MaskCase {
  const char* label;
  Mask (*make)(B& b, int64_t batch, int64_t queries, int64_t keys);
};

const MaskCase kMasks[] = {
    {"full", [](B&, int64_t, int64_t, int64_t) { return Mask::full(); }},
    {"causal", [](B&, int64_t, int64_t, int64_t) { return Mask::causal(); }},
    {"causal+start",
     [](B& b, int64_t, int64_t, int64_t) {
       Mask mask = Mask::causal();
       mask.query_start = b.ints({2}, {1, 2});
       return mask;
     }},
    {"block_causal",
     [](B& b, int64_t, int64_t, int64_t) { return Mask::block_causal(b.ints({}, {2})); }},
    {"two_stream",
     [](B& b, int64_t, int64_t, int64_t) {
       const Value length = b.ints({}, {3}), block = b.ints({}, {2});
       return Mask::two_stream(length, block);
     }},
    {"key_range with empty rows",
     [](B& b, int64_t, int64_t, int64_t) {
       Mask mask;
       const Value begin = b.ints({2}, {1, 4}), end = b.ints({2}, {5, 4});
       return mask.and_key_range(begin, end);
     }},
    {"causal+window+segments",
     [](B& b, int64_t batch, int64_t queries, int64_t keys) {
       Mask mask = Mask::causal();
       const Value reach = b.ints({}, {2}), query = b.i({batch, queries}, 0, 2),
                   key = b.i({batch, keys}, 0, 2);
       return mask.and_window(reach).and_segments(query, key);
     }},
    {"key_limit",
     [](B& b, int64_t, int64_t, int64_t) {
       return Mask{}.and_key_limit(b.ints({2, 5}, {1, 6, 0, 3, 4, 6, 2, 2, 5, 1}));
     }},
    {"key_keep",
     [](B& b, int64_t batch, int64_t, int64_t keys) {
       return Mask{}.and_key_keep(b.u8({batch, keys}));
     }},
    {"dense",
     [](B& b, int64_t batch, int64_t queries, int64_t keys) {
       return Mask{}.and_dense(b.u8({batch, queries, keys}));
     }},
};

} // namespace

void add_attention(Cases& c) {
  for (const MaskCase& m : kMasks) {
    for (bool average : {false, true}) {
      const std::string label = std::string(m.label) + (average ? " average" : "");
      AttentionOptions options;
      options.scale = 0.4f;
      options.softcap = average ? 3.0f : 0.0f;
      options.empty_average = average;
      c.add(
          "attention", label,
          [&](B& b) {
            const Value q = b.f({2, 5, 4, 3}), k = b.f({2, 6, 2, 3}), v = b.f({2, 6, 2, 5});
            const Value out = attention(q, k, v, m.make(b, 2, 5, 6), options);
            const Node& node = b.graph().nodes()[static_cast<size_t>(b.graph().producer(out.id))];
            return Values{out, b.graph().value(node.outputs[1])};
          },
          1);
      // out and lse must belong to q, k, v: made by the forward operation of the same graph.
      c.add("attention_grad", label, [&](B& b) {
        const Value q = b.fixed({2, 5, 4, 3}), k = b.fixed({2, 6, 2, 3}), v = b.fixed({2, 6, 2, 5});
        const Value out = attention(q, k, v, m.make(b, 2, 5, 6), options);
        const Node node = b.graph().nodes()[static_cast<size_t>(b.graph().producer(out.id))];
        Values inputs{q, k, v, out, b.graph().value(node.outputs[1]), b.f({2, 5, 4, 5})};
        for (size_t i = 3; i < node.inputs.size(); ++i)
          inputs.push_back(b.graph().value(node.inputs[i]));
        return Cases::raw("attention_grad", inputs, node.attributes);
      });
    }
  }
  // The log-sum-exp has a gradient too; every query sees a key.
  for (const bool capped : {false, true}) {
    c.add("attention", capped ? "log sum exp softcap" : "log sum exp", [&](B& b) {
      AttentionOptions options;
      options.scale = 0.4f;
      options.softcap = capped ? 3.0f : 0.0f;
      const Value q = b.f({2, 5, 4, 3}), k = b.f({2, 5, 2, 3}), v = b.f({2, 5, 2, 4});
      const AttentionParts made = attention_parts(q, k, v, Mask::causal(), options);
      return Values{made.out, made.log_sum_exp};
    });
    c.add("attention", capped ? "log sum exp alone softcap" : "log sum exp alone", [&](B& b) {
      AttentionOptions options;
      options.softcap = capped ? 3.0f : 0.0f;
      const Value q = b.f({2, 5, 4, 3}), k = b.f({2, 5, 2, 3});
      return Values{
          attention_parts(q, k, b.fixed({2, 5, 2, 4}), Mask::causal(), options).log_sum_exp};
    });
  }
  // On one rank nothing is passed on. Queries of a rank begin at a place of their own; every kind
  // of mask that a ring takes.
  const AxisSet data(Axis::data);
  const auto ring_mask = [](B& b) {
    Mask mask = Mask::block_causal(b.ints({}, {4}));
    mask.query_start = b.ints({2}, {0, 1});
    const Value reach = b.ints({}, {5}), begin = b.ints({2}, {0, 1}), end = b.ints({2}, {6, 6});
    const Value query = b.i({2, 5}, 0, 2), key = b.i({2, 6}, 0, 2);
    return mask.and_window(reach).and_key_range(begin, end).and_segments(query, key);
  };
  AttentionOptions ring_options;
  ring_options.scale = 0.4f;
  ring_options.softcap = 3.0f;
  c.add("ring_attention", "", [&](B& b) {
    const Value q = b.f({2, 5, 4, 3}), k = b.f({2, 6, 2, 3}), v = b.f({2, 6, 2, 5});
    const Value out = ring_attention(vary(q, data), vary(k, data), vary(v, data), ring_mask(b),
                                     ring_options, Axis::data, 1);
    return Values{all_reduce(out, data)};
  });
  c.add("ring_attention_grad", "", [&](B& b) {
    const Value q = b.fixed({2, 5, 4, 3}), k = b.fixed({2, 6, 2, 3}), v = b.fixed({2, 6, 2, 5});
    const Value out =
        ring_attention(vary(q, data), k, v, ring_mask(b), ring_options, Axis::data, 1);
    const Node node = b.graph().nodes()[static_cast<size_t>(b.graph().producer(out.id))];
    Values inputs;
    for (const auto input : node.inputs) inputs.push_back(b.graph().value(input));
    inputs.insert(inputs.begin() + 3,
                  {out, b.graph().value(node.outputs[1]), vary(b.f({2, 5, 4, 5}), data)});
    Values grads = Cases::raw("ring_attention_grad", inputs, node.attributes);
    for (Value& grad : grads) grad = all_reduce(grad, data);
    return grads;
  });
  c.add("attention", "long", [](B& b) {
    AttentionOptions options;
    options.scale = 0.2f;
    return Values{attention(b.fixed({1, 70, 2, 19}), b.fixed({1, 133, 1, 19}),
                            b.fixed({1, 133, 1, 21}), Mask::causal(), options)};
  });
}

} // namespace dllm::graph::test
