// Layer kinds with state that the library does not have, registered as its own are: a gated
// recurrence behind a short convolution, and an attention with smaller rows. What is kept of them
// must not be seen in the tokens.

#include "graph/ops.h"
#include "model/layers/layer_kind.h"
#include "unit/decode/passes/far_engine.h"
#include "unit/decode/requests.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dllm::decode {
namespace {

using graph::Value;
using model::LayerInputs;

constexpr int64_t kTaps = 3; // of the convolution

void recurrence_params(model::ParamTable& table, const model::ModelConfig& config) {
  table.matrix("in", config.hidden_size, config.hidden_size);
  table.matrix("out", config.hidden_size, config.hidden_size);
  table.add("decay", model::ParamRole::bias, {config.hidden_size}); // first value 0: a = 1/2
}

// h_t = a h_{t-1} + (1 - a) u_t for u (batch, seq, hidden); every h_t.
Value recur(const LayerInputs& inputs, Value u) {
  graph::Graph& graph = *u.graph;
  const int64_t batch = u.dim(0), hidden = u.dim(2);
  const auto body = std::make_shared<graph::Graph>("recurrence");
  const Value h = body->input("h", DType::f32, {batch, hidden}),
              now = body->input("u", DType::f32, {batch, hidden}),
              a = body->input("a", DType::f32, {hidden});
  const Value next = graph::add(
      graph::multiply(a, h), graph::multiply(graph::subtract(graph::scalar(*body, 1.0f), a), now));
  body->output("h", next);
  body->output("all", next);
  const Value first = inputs.state->before(graph, "h", batch);
  const graph::ScanResult result = graph::scan(body, {first}, {graph::transpose(u, {1, 0, 2})},
                                               {graph::logistic(inputs.param("decay"))}, u.dim(1));
  const Value all = graph::transpose(result.stacked[0], {1, 0, 2});
  inputs.state->after_each("h", all);
  return all;
}

Value build_recurrence(const LayerInputs& inputs, Value x) {
  const Value rows = inputs.state->roll(
      "conv", model::linear_param(inputs, x, "in")); // (batch, kTaps - 1 + seq, hidden)
  Value sum = graph::slice_axis(rows, 1, 0, x.dim(1));
  for (int64_t tap = 1; tap < kTaps; ++tap)
    sum = graph::add(sum, graph::slice_axis(rows, 1, tap, tap + x.dim(1)));
  return model::linear_param(inputs, recur(inputs, sum), "out");
}

std::vector<model::StateSlot> recurrence_state(const model::ModelConfig& config) {
  return {{"h", model::StateKind::snapshot, {config.hidden_size}},
          {"conv", model::StateKind::rolling, {kTaps - 1, config.hidden_size}}};
}

// One head of keys and values whatever the config says.
void narrow_params(model::ParamTable& table, const model::ModelConfig& config) {
  table.matrix("q", config.query_size(), config.hidden_size);
  table.matrix("k", config.head_dim, config.hidden_size);
  table.matrix("v", config.head_dim, config.hidden_size);
  table.matrix("out", config.hidden_size, config.query_size());
}

Value build_narrow(const LayerInputs& inputs, Value x) {
  const model::ModelConfig& config = inputs.config;
  const auto heads = [&](const char* name, int64_t count) {
    return graph::reshape(model::linear_param(inputs, x, name),
                          {x.dim(0), x.dim(1), count, config.head_dim});
  };
  const auto turned = [&](Value y) {
    return graph::rope(y, inputs.positions, inputs.inv_freq, false, inputs.rope_amplitude);
  };
  const Value k = inputs.state->keep("keys", turned(heads("k", 1))),
              v = inputs.state->keep("values", heads("v", 1));
  graph::AttentionOptions options;
  options.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(config.head_dim)));
  const Value mixed =
      graph::attention(turned(heads("q", config.heads)), k, v, inputs.mask, options);
  return model::linear_param(
      inputs, graph::reshape(mixed, {x.dim(0), x.dim(1), config.query_size()}), "out");
}

std::vector<model::StateSlot> narrow_state(const model::ModelConfig& config) {
  return {{"keys", model::StateKind::positional, {config.head_dim}, config.cache_dtype},
          {"values", model::StateKind::positional, {config.head_dim}, config.cache_dtype}};
}

model::LayerCost no_cost(const model::ModelConfig&) {
  return {};
}

const model::LayerKind kRecurrence = {"test_recurrence", model::LayerPart::mixer,
                                      recurrence_params, build_recurrence,
                                      no_cost,           recurrence_state};
const model::LayerKind kNarrow = {
    "test_narrow", model::LayerPart::mixer, narrow_params, build_narrow, no_cost, narrow_state};

Json hybrid_config(const std::vector<std::string>& mixers) {
  static const bool added = [] {
    model::add_layer_kind(kRecurrence);
    model::add_layer_kind(kNarrow);
    return true;
  }();
  static_cast<void>(added);
  Json config = tiny_config();
  config["model_type"] = "llama";
  config["num_hidden_layers"] = mixers.size();
  config["dllm"] = {{"attention", "block_causal"}, {"block_length", 4}, {"mixers", mixers}};
  return config;
}

const std::vector<std::string> kHybrid = {"test_recurrence", "test_recurrence", "attention",
                                          "test_narrow",     "test_recurrence", "attention"};
const std::vector<TestRequest> kRequests = {
    {{3, 1, 4}, 11, 9}, {{}, 5, 14}, {{9, 2, 6, 5, 3, 5, 8, 9}, 7, 33}};

TEST(LayerState, StacksHoldTheSlotsOfAllLayersOfOneForm) {
  const auto model = tiny_model(1, hybrid_config(kHybrid));
  EXPECT_EQ(model::layer_runs(model->config()).size(), 5u);
  EXPECT_NO_THROW(model->params().read("model.layers.4.test_recurrence.in.weight"));
  const std::vector<model::StateStack> stacks = model::state_stacks(model->config());
  std::vector<std::string> names;
  for (const model::StateStack& stack : stacks) names.push_back(stack.name);
  EXPECT_EQ(names, (std::vector<std::string>{"h", "conv", "keys", "values", "keys@3", "values@3"}));
  EXPECT_EQ(stacks[0].layers, (std::vector<int64_t>{0, 1, 4}));
  EXPECT_EQ(stacks[2].layers, (std::vector<int64_t>{2, 5}));
  const model::StateSize size{2, 64};
  EXPECT_EQ(stacks[1].shape(size), (Shape{3 * 2 * model::kSnapshots, 2 * 24}));
  EXPECT_EQ(stacks[2].shape(size), (Shape{2 * 2 * 64, 12}));
  EXPECT_EQ(stacks[4].shape(size), (Shape{2 * 64, 6}));
}

TEST(LayerState, AMixerThatIsNotThereIsRefused) {
  EXPECT_THROW(tiny_model(1, hybrid_config({"no_such_kind"})), Error);
  EXPECT_THROW(tiny_model(1, hybrid_config({"mlp"})), Error);
  EXPECT_THROW(model::add_layer_kind(kRecurrence), Error);
}

struct Way {
  std::string policy, attention;
  int shift;
  std::string loop = "host";
};

class LayerStateDecoding : public ::testing::TestWithParam<Way> {
protected:
  std::unique_ptr<Decoder> decoder(const std::string& cache) const {
    const Way& way = GetParam();
    const bool loop = cache == "exact";
    return make_decoder(model_, {{"policy", way.policy},
                                 {"steps", 24},
                                 {"block_length", 4},
                                 {"attention", way.attention},
                                 {"shift", way.shift},
                                 {"cache", cache},
                                 {"temperature", 0.9},
                                 {"loop", loop ? way.loop : "host"}});
  }
  void expect_equal(Decoder& cached, Decoder& plain, int64_t slots) {
    for (int64_t slot = 0; slot < slots; ++slot)
      EXPECT_EQ(answer_of(cached, slot), answer_of(plain, slot)) << "slot " << slot;
  }
  std::shared_ptr<model::Model> model_ = tiny_model(2, hybrid_config(kHybrid));
};

TEST_P(LayerStateDecoding, SnapshotsGiveTheTokensOfNoCache) {
  const auto cached = decoder("exact"), plain = decoder("none");
  for (const TestRequest& request : kRequests) add(*cached, request), add(*plain, request);
  cached->run(), plain->run();
  expect_equal(*cached, *plain, 3);
  EXPECT_GT(cached->metric(-1, "cache_bytes"), 0);
}

// The second request has the prompt of the first, the third one half of it.
TEST_P(LayerStateDecoding, RequestsComeAndGo) {
  const auto cached = decoder("exact"), plain = decoder("none");
  std::vector<int32_t> prompt = {9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2};
  for (Decoder* each : {cached.get(), plain.get()}) {
    add(*each, {prompt, 1, 8});
    add(*each, kRequests[1]);
    for (int i = 0; i < 3; ++i) each->step();
    each->run();
    each->remove(0);
  }
  for (Decoder* each : {cached.get(), plain.get()}) add(*each, {prompt, 2, 28}), each->run();
  if (GetParam().policy == "low_confidence") EXPECT_EQ(cached->metric(-1, "reused"), 12);
  // Snapshots of every position: those of the prompt were overwritten.
  if (GetParam().policy == "autoregressive") EXPECT_EQ(cached->metric(-1, "reused"), 0);
  expect_equal(*cached, *plain, 2);
  prompt[5] = 1;
  for (Decoder* each : {cached.get(), plain.get()})
    each->remove(0), add(*each, {prompt, 3, 40}), each->run();
  expect_equal(*cached, *plain, 2);
}

TEST_P(LayerStateDecoding, SnapshotsAreCopiedFromRunningRequests) {
  for (const size_t group : {1, 4}) {
    const auto cached = decoder("exact"), plain = decoder("none");
    const std::vector<TestRequest> requests = prompt_tree(5, 8);
    for (Decoder* each : {cached.get(), plain.get()}) run_in_groups(*each, requests, group);
    expect_equal(*cached, *plain, std::ssize(requests));
    if (GetParam().policy == "low_confidence") EXPECT_GT(cached->metric(-1, "reused"), 0) << group;
  }
}

TEST_P(LayerStateDecoding, ALostStateIsComputedAgain) {
  const auto cached = decoder("exact"), plain = decoder("none");
  add(*cached, kRequests[2]), add(*plain, kRequests[2]);
  for (int i = 0; i < 9; ++i) cached->step(), plain->step();
  model_->params().bump(); // other weights, as far as the decoder can detect
  cached->run(), plain->run();
  expect_equal(*cached, *plain, 1);
}

INSTANTIATE_TEST_SUITE_P(
    Decode, LayerStateDecoding,
    ::testing::Values(Way{"low_confidence", "block_causal", 0},
                      Way{"low_confidence", "block_causal", 1},
                      Way{"low_confidence", "block_causal", 0, "device"},
                      Way{"low_confidence", "block_causal", 1, "device"}, Way{"bd3lm", "auto", 0},
                      Way{"multi_block", "block_causal", 0}, Way{"multi_block", "block_causal", 1},
                      Way{"llada2", "auto", 0}, Way{"autoregressive", "causal", 0},
                      Way{"autoregressive", "causal", 1}),
    [](const auto& info) {
      return info.param.policy + "_" + info.param.loop + "_" + std::to_string(info.param.shift);
    });

TEST(LayerState, AModelOfRecurrencesAloneDecodes) {
  const auto model = tiny_model(1, hybrid_config({"test_recurrence", "test_recurrence"}));
  const Json settings = {{"steps", 12}, {"block_length", 4}};
  Json none = settings;
  none["cache"] = "none";
  const auto cached = make_decoder(model, settings), plain = make_decoder(model, none);
  for (const TestRequest& request : kRequests) add(*cached, request), add(*plain, request);
  cached->run(), plain->run();
  for (int64_t slot = 0; slot < 3; ++slot)
    EXPECT_EQ(answer_of(*cached, slot), answer_of(*plain, slot));
}

// The pass that saves a snapshot starts from another one, so it can be repeated.
TEST(DecodeState, SnapshotsLieWhereBlocksEnd) {
  constexpr AttentionSpan kBlocks{4, 0, false};
  DecodeState state(tiny_model(1, hybrid_config({"test_recurrence"})));
  const std::vector<int32_t> ids(40, 7);
  const int64_t row = state.acquire(40, {}, kBlocks);
  EXPECT_EQ(state.saved_pass(row, 0, 0).to, -1);
  std::vector<int64_t> places;
  for (int64_t begin = 0; begin < 24; begin += 4) {
    const SavedPass pass = state.saved_pass(row, begin, begin + 4);
    EXPECT_NE(pass.from, pass.to);
    EXPECT_EQ(pass.length, 4);
    EXPECT_EQ(pass.from, begin == 0 ? -1 : places.back());
    state.commit(row, ids, begin, begin + 4);
    places.push_back(pass.to);
  }
  EXPECT_EQ(state.view(row).final_end, 24);
  EXPECT_EQ(state.start(row, 23), 20);
  state.rewind(row, 19);
  EXPECT_EQ(state.view(row).final_end, 16);
  EXPECT_EQ(state.start(row, 16), 16);
  EXPECT_EQ(state.saved_pass(row, 16, 16).from, places[3]);
  state.rewind(row, 9); // the snapshots before 12 were overwritten
  EXPECT_EQ(state.view(row).final_end, 0);
  EXPECT_EQ(state.saved_pass(row, 0, 0).from, -1);
}

} // namespace
} // namespace dllm::decode
