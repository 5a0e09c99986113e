// Attention at the borders of its chunks, under every kind of mask, with its gradient: lowered
// against the kernels of the CPU engine.

#include "graph/passes.h"
#include "unit/graph/case_builder.h"
#include "unit/pjrt/lower/lower_tools.h"

namespace dllm::pjrt {
namespace {

using graph::Mask;
using graph::Value;
using graph::test::CaseBuilder;

struct Sizes {
  int64_t batch, queries, keys, heads, kv_heads, dim, vdim;
};

using MakeMask = Mask (*)(CaseBuilder&, const Sizes&);

struct MaskCase {
  const char* label;
  MakeMask make;
};

const MaskCase kMasks[] = {
    {"full", [](CaseBuilder&, const Sizes&) { return Mask::full(); }},
    {"causal", [](CaseBuilder&, const Sizes&) { return Mask::causal(); }},
    {"causal from a start",
     [](CaseBuilder& b, const Sizes& s) {
       Mask mask = Mask::causal();
       mask.query_start = b.i({s.batch}, 0, 300);
       return mask;
     }},
    {"causal, window, segments",
     [](CaseBuilder& b, const Sizes& s) {
       Mask mask = Mask::causal();
       const Value reach = b.ints({}, {70}), query = b.i({s.batch, s.queries}, 0, 3),
                   key = b.i({s.batch, s.keys}, 0, 3);
       return mask.and_window(reach).and_segments(query, key);
     }},
    {"causal, key_keep",
     [](CaseBuilder& b, const Sizes& s) {
       Mask mask = Mask::causal();
       return mask.and_key_keep(b.u8({s.batch, s.keys}));
     }},
    {"block_causal",
     [](CaseBuilder& b, const Sizes&) { return Mask::block_causal(b.ints({}, {33})); }},
    {"two_stream",
     [](CaseBuilder& b, const Sizes& s) {
       const Value length = b.ints({}, {static_cast<int32_t>(s.keys / 2)}),
                   block = b.ints({}, {32});
       return Mask::two_stream(length, block);
     }},
    {"key_range with an empty row",
     [](CaseBuilder& b, const Sizes&) {
       Mask mask;
       const Value begin = b.ints({2}, {100, 40}), end = b.ints({2}, {900, 40});
       return mask.and_key_range(begin, end);
     }},
    {"key_limit with empty queries",
     [](CaseBuilder& b, const Sizes& s) {
       return Mask{}.and_key_limit(b.i({s.batch, s.queries}, -200, static_cast<int32_t>(s.keys)));
     }},
    {"dense",
     [](CaseBuilder& b, const Sizes& s) {
       return Mask{}.and_dense(b.u8({s.batch, s.queries, s.keys}));
     }},
    {"causal, dense",
     [](CaseBuilder& b, const Sizes& s) {
       Mask mask = Mask::causal();
       return mask.and_dense(b.u8({s.batch, s.queries, s.keys}));
     }},
};

// capped: softcap, and empty queries average all values.
graph::test::OpCase attention_case(const MaskCase& mask, const Sizes& s, bool capped) {
  CaseBuilder b("attention", std::string(mask.label) + (capped ? " capped" : ""));
  const Value q = b.f({s.batch, s.queries, s.heads, s.dim}),
              k = b.f({s.batch, s.keys, s.kv_heads, s.dim}),
              v = b.f({s.batch, s.keys, s.kv_heads, s.vdim});
  graph::AttentionOptions options;
  options.scale = 0.4f;
  options.softcap = capped ? 3.0f : 0.0f;
  options.empty_average = capped;
  const Value out = attention(q, k, v, mask.make(b, s), options);
  const graph::Node& node = b.graph().nodes()[static_cast<size_t>(b.graph().producer(out.id))];
  const Value lse = b.graph().value(node.outputs[1]);
  auto made = b.done({out, lse}, 1);
  add_gradients(*made.graph, made.wrt, made.grad_outputs);
  return made;
}

void check(const MaskCase& mask, const Sizes& s, bool capped) {
  const auto c = attention_case(mask, s, capped);
  expect_same_lowered(c.graph, c.inputs, 1e-5,
                      c.label + " " + std::to_string(s.queries) + " x " + std::to_string(s.keys));
}

TEST(LowerAttention, EveryMaskInChunks) {
  for (const MaskCase& mask : kMasks) {
    for (bool capped : {false, true}) check(mask, {2, 600, 1060, 4, 2, 8, 6}, capped);
  }
}

TEST(LowerAttention, EveryMaskAtOnce) {
  for (const MaskCase& mask : kMasks) {
    for (bool capped : {false, true}) check(mask, {2, 37, 1000, 6, 2, 5, 3}, capped);
  }
}

TEST(LowerAttention, LengthsAroundTheBorders) {
  for (int64_t length : {255, 256, 257, 1023, 1024, 1025, 1300})
    check(kMasks[1], {1, length, length, 2, 1, 8, 8}, false);
  check(kMasks[1], {1, 1300, 1030, 2, 2, 8, 8}, true); // more queries than keys
  check(kMasks[1], {1, 257, 2100, 3, 3, 8, 8}, false); // keys that no query sees
}

TEST(LowerAttention, AxesAreKept) {
  for (const MaskCase& mask : kMasks)
    expect_axes_kept(*attention_case(mask, {2, 600, 1060, 4, 2, 8, 6}, true).graph);
}

TEST(LowerAttention, FewQueriesOverALongCacheStayOneProduct) {
  const auto c = attention_case(kMasks[0], {1, 32, 3000, 2, 1, 4, 4}, false);
  const auto lowered = lower(*c.graph);
  for (const graph::Node& node : lowered->nodes()) EXPECT_TRUE(node.bodies.empty());
}

TEST(LowerAttention, NoTableIsLargerThanAChunk) {
  const Sizes s{1, 4096, 4096, 2, 1, 8, 8};
  const auto c = attention_case(kMasks[1], s, false);
  EXPECT_LE(largest_value(*lower(*c.graph)), s.batch * s.heads * 256 * s.keys);
}

// A batch so large that even a chunk of 256 queries would not fit is cut finer.
TEST(LowerAttention, ChunksShrinkWithTheBatch) {
  const Sizes s{256, 512, 1024, 8, 1, 1, 1};
  const auto c = [&] {
    CaseBuilder b("attention", "large batch");
    const Value q = b.fixed({s.batch, s.queries, s.heads, s.dim}),
                k = b.fixed({s.batch, s.keys, s.kv_heads, s.dim});
    return b.done({attention(q, k, k, Mask::causal(), {})});
  }();
  EXPECT_LE(largest_value(*lower(*c.graph)), int64_t{1} << 26); // 32 queries, the least
}

// Figures that a person reads: the arena of our own plan.
TEST(LowerAttention, ChunksNeedLessMemoryThanOneTable) {
  const auto c = attention_case(kMasks[1], {1, 4096, 4096, 8, 4, 64, 64}, false);
  const int64_t chunked = cpu_engine()->compile(lower(*c.graph))->plan().arena_bytes;
  const auto whole = [&] {
    const auto other = attention_case(kMasks[1], {1, 4096, 4096, 8, 4, 64, 64}, false);
    return cpu_engine()->compile(graph::decompose(*other.graph))->plan().arena_bytes;
  }();
  std::printf("arena of attention with its gradient, 4096 positions, 8 heads: chunked %.0f MB, "
              "dense %.0f MB\n",
              1e-6 * static_cast<double>(chunked), 1e-6 * static_cast<double>(whole));
  EXPECT_LT(4 * chunked, whole);
}

} // namespace
} // namespace dllm::pjrt
