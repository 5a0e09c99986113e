// The gated delta rule in all its forms against a loop in f64, and the layer kind in a small model.

#include "../model_tools.h"
#include "graph/ops.h"
#include "model/families/family.h"
#include "model/layers/delta_rule.h"
#include "model/model.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dllm::model {
namespace {

using graph::Value;
using test::expect_error;
using test::model_options;
using test::small_config;
using test::small_engine;

struct Sizes {
  int64_t batch = 2, seq = 0, heads = 2, key_dim = 4, value_dim = 3;
};

Tensor wave(const Shape& shape, double speed, double low, double high) {
  Tensor made(DType::f32, shape);
  double at = 0;
  for (float& value : made.mutable_as<float>())
    value = static_cast<float>(low + (high - low) * (0.5 + 0.5 * std::sin(speed * ++at)));
  return made;
}

struct RuleNumbers {
  explicit RuleNumbers(const Sizes& s)
      : q(wave({s.batch, s.seq, s.heads, s.key_dim}, 1.3, -1, 1)),
        k(wave({s.batch, s.seq, s.heads, s.key_dim}, 0.7, -0.5, 0.5)),
        v(wave({s.batch, s.seq, s.heads, s.value_dim}, 2.1, -1, 1)),
        g(wave({s.batch, s.seq, s.heads}, 0.9, -2, 0)),
        beta(wave({s.batch, s.seq, s.heads}, 1.1, 0, 1)),
        state(wave({s.batch, s.heads, s.key_dim, s.value_dim}, 0.3, -1, 1)) {}
  Tensor q, k, v, g, beta, state;
};

struct RuleResults {
  std::vector<double> out, state;
};

// S <- exp(g) S, S <- S + k (beta (v - S' k))', o = S' q; zeros where a text begins.
RuleResults by_position(const Sizes& s, const RuleNumbers& in, int64_t length,
                        const std::vector<int32_t>& segments) {
  RuleResults made;
  made.out.resize(static_cast<size_t>(s.batch * s.seq * s.heads * s.value_dim));
  for (const float value : in.state.as<float>()) made.state.push_back(value);
  const auto at = [](const Tensor& x, int64_t i) {
    return static_cast<double>(x.as<float>()[static_cast<size_t>(i)]);
  };
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t begin = (b * s.heads + h) * s.key_dim * s.value_dim;
      std::vector<double> S(made.state.begin() + begin,
                            made.state.begin() + begin + s.key_dim * s.value_dim);
      for (int64_t t = 0; t < s.seq; ++t) {
        const int64_t row = (b * s.seq + t) * s.heads + h;
        if (t > 0 && !segments.empty() &&
            segments[static_cast<size_t>(t)] != segments[static_cast<size_t>(t - 1)])
          std::fill(S.begin(), S.end(), 0.0);
        for (double& value : S) value *= std::exp(at(in.g, row));
        for (int64_t j = 0; j < s.value_dim; ++j) {
          double known = 0, read = 0;
          for (int64_t i = 0; i < s.key_dim; ++i)
            known += S[static_cast<size_t>(i * s.value_dim + j)] * at(in.k, row * s.key_dim + i);
          const double write = at(in.beta, row) * (at(in.v, row * s.value_dim + j) - known);
          for (int64_t i = 0; i < s.key_dim; ++i) {
            double& value = S[static_cast<size_t>(i * s.value_dim + j)];
            value += at(in.k, row * s.key_dim + i) * write;
            read += value * at(in.q, row * s.key_dim + i);
          }
          made.out[static_cast<size_t>(row * s.value_dim + j)] = read;
        }
        if (t + 1 == length) std::copy(S.begin(), S.end(), made.state.begin() + begin);
      }
    }
  }
  return made;
}

class RuleGraph {
public:
  Value input(const Tensor& numbers) {
    numbers_.push_back(numbers);
    return graph->input(std::to_string(numbers_.size()), numbers.dtype(), numbers.shape());
  }
  DeltaInputs inputs(const RuleNumbers& in) {
    return {input(in.q),    input(in.k),     input(in.v), input(in.g),
            input(in.beta), input(in.state), {},          {}};
  }
  std::vector<Tensor> run() const {
    const auto engine = small_engine();
    std::vector<graph::BufferRef> given;
    for (const Tensor& numbers : numbers_) given.push_back(engine->upload(numbers));
    std::vector<Tensor> made;
    for (const graph::BufferRef& output : engine->compile(graph)->run(given))
      made.push_back(output->read().clone());
    return made;
  }
  std::shared_ptr<graph::Graph> graph = std::make_shared<graph::Graph>("rule");

private:
  std::vector<Tensor> numbers_;
};

void expect_close(const Tensor& got, const std::vector<double>& want, const std::string& what) {
  ASSERT_EQ(got.count(), static_cast<int64_t>(want.size()));
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got.as<float>()[i], want[i], 2e-5) << what << " " << i;
}

// From a state, for any chunk, keeping the state in the middle, over rows of several texts.
TEST(DeltaRule, EveryFormIsTheRecurrence) {
  for (const int64_t seq : {1, 5, 32, 70}) {
    const Sizes sizes{.seq = seq};
    const RuleNumbers in(sizes);
    std::vector<int32_t> texts;
    for (int64_t t = 0; t < seq; ++t) texts.push_back(t < seq / 3 ? 1 : t < 40 ? 2 : 3);
    for (const int64_t chunk : {1, 7, 32, 64}) {
      for (const bool cut : {false, true}) {
        const int64_t length = (seq + 1) / 2;
        RuleGraph rule, packed;
        DeltaInputs plain = rule.inputs(in), with_texts = packed.inputs(in);
        const std::vector<int32_t> lengths(static_cast<size_t>(sizes.batch),
                                           static_cast<int32_t>(length));
        if (cut) plain.length = rule.input(Tensor::from(Shape{sizes.batch}, lengths));
        std::vector<int32_t> rows;
        for (int64_t b = 0; b < sizes.batch; ++b)
          rows.insert(rows.end(), texts.begin(), texts.end());
        with_texts.segments = packed.input(Tensor::from(Shape{sizes.batch, seq}, rows));
        const std::string what =
            "seq " + std::to_string(seq) + " chunk " + std::to_string(chunk) + (cut ? " cut" : "");
        for (auto& [graph, given, segments] : {std::tuple{&rule, plain, std::vector<int32_t>{}},
                                               std::tuple{&packed, with_texts, texts}}) {
          const DeltaOutputs made = delta_rule(given, chunk);
          graph->graph->output("out", made.out);
          graph->graph->output("state", made.state);
          const std::vector<Tensor> found = graph->run();
          const bool keeps = cut && segments.empty();
          const RuleResults want = by_position(sizes, in, keeps ? length : seq, segments);
          expect_close(found[0], want.out, "out " + what);
          expect_close(found[1], want.state, "state " + what);
        }
      }
    }
  }
}

// Identical keys without decay: powers of the triangular matrix would be as large as 10^8.
TEST(DeltaRule, RepeatedKeysStayExact) {
  const Sizes sizes{.seq = 64};
  RuleNumbers in(sizes);
  for (float& value : in.k.mutable_as<float>()) value = 0.5f; // unit
  for (float& value : in.g.mutable_as<float>()) value = 0;
  for (float& value : in.beta.mutable_as<float>()) value = 1;
  RuleGraph rule;
  rule.graph->output("out", delta_rule(rule.inputs(in), 64).out);
  expect_close(rule.run()[0], by_position(sizes, in, 64, {}).out, "out");
}

// Positions behind those of interest change no bit: rows of a pass are padded to the longest.
TEST(DeltaRule, WhatFollowsChangesNoBit) {
  const Sizes whole{.seq = 48};
  const RuleNumbers in(whole);
  for (const int64_t seq : {1, 4, 9, 32, 33}) {
    RuleGraph longer, shorter;
    const DeltaInputs all = longer.inputs(in);
    DeltaInputs part = shorter.inputs(in);
    for (Value* value : {&part.q, &part.k, &part.v, &part.g, &part.beta})
      *value = graph::slice_axis(*value, 1, 0, seq);
    DeltaInputs counted = all;
    const std::vector<int32_t> lengths(2, static_cast<int32_t>(seq));
    counted.length = longer.input(Tensor::from(Shape{2}, lengths));
    part.length = shorter.input(Tensor::from(Shape{2}, lengths));
    const DeltaOutputs one = delta_rule(counted), two = delta_rule(part);
    longer.graph->output("out", graph::slice_axis(one.out, 1, 0, seq));
    longer.graph->output("state", one.state);
    shorter.graph->output("out", two.out);
    shorter.graph->output("state", two.state);
    const auto found = longer.run(), want = shorter.run();
    for (size_t i = 0; i < 2; ++i)
      EXPECT_TRUE(std::ranges::equal(found[i].as<float>(), want[i].as<float>())) << seq << " " << i;
  }
}

Json hybrid_config(const char* type) {
  Json config = small_config(type);
  config["num_hidden_layers"] = 4;
  config["rope_theta"] = 1e4;
  config["partial_rotary_factor"] = 0.5;
  config.update({{"linear_num_key_heads", 2},
                 {"linear_num_value_heads", 4},
                 {"linear_key_head_dim", 4},
                 {"linear_value_head_dim", 3}});
  if (std::string(type) != "qwen3_5_text") {
    config.update({{"num_experts", 4},
                   {"num_experts_per_tok", 2},
                   {"moe_intermediate_size", 6},
                   {"shared_expert_intermediate_size", 5}});
  }
  return config;
}

TEST(GatedDelta, EveryFourthLayerIsAttention) {
  for (const char* type : {"qwen3_5_text", "qwen3_5_moe_text", "qwen3_next"}) {
    const ModelConfig config = config_from_json(hybrid_config(type), "c");
    EXPECT_EQ(config.mixers,
              (std::vector<std::string>{"gated_delta", "gated_delta", "gated_delta", "attention"}));
    EXPECT_EQ(layer_runs(config).size(), 2u);
    EXPECT_EQ(state_stacks(config).size(), 4u);
    const ModelConfig again = config_from_json(config_to_json(config), "c");
    EXPECT_EQ(config_to_json(again), config_to_json(config));
    EXPECT_EQ(again.gated_delta.value_heads, 4);
  }
}

TEST(GatedDelta, FirstValuesAreThoseOfTheReference) {
  const auto model = new_model(small_engine(), hybrid_config("qwen3_5_text"), model_options());
  const std::string layer = "model.layers.1.linear_attn.";
  const Tensor conv = model->params().read(layer + "conv1d.weight");
  EXPECT_EQ(conv.shape(), (Shape{2 * 8 + 12, 1, 4}));
  float largest = 0;
  for (const float value : conv.as<float>()) largest = std::max(largest, std::abs(value));
  EXPECT_GT(largest, 0.4f);
  EXPECT_LE(largest, 0.5f);
  const Tensor rates = model->params().read(layer + "A_log");
  const Tensor steps = model->params().read(layer + "dt_bias");
  for (const float value : rates.as<float>()) {
    EXPECT_GE(value, std::log(0.01f));
    EXPECT_LE(value, std::log(16.0f));
  }
  for (const float value : steps.as<float>()) EXPECT_EQ(value, 1);
}

TEST(GatedDelta, BadSizesAreNamed) {
  Json config = hybrid_config("qwen3_5_text");
  config["linear_num_value_heads"] = 3;
  expect_error(Code::invalid_argument, "a multiple of the 2 linear_num_key_heads",
               [&] { config_from_json(config, "c"); });
  config = hybrid_config("qwen3_5_text");
  config["layer_types"] = {"linear_attention"};
  expect_error(Code::invalid_argument, "a list of 4 times", [&] { config_from_json(config, "c"); });
  config = small_config("llama");
  config["dllm"] = {{"mixers", {"attention", "gated_delta", "attention"}}};
  expect_error(Code::invalid_argument, "has no sizes for layers of kind gated_delta",
               [&] { new_model(small_engine(), config, model_options()); });
}

// Rows longer than a chunk are a scan, whose states vary over the ranks that its rows are cut over.
TEST(GatedDelta, LongRowsOnMeshesAreThoseOfOneRank) {
  for (const char* type : {"qwen3_5_text", "qwen3_next", "qwen3_5_moe_text"}) {
    Json config = hybrid_config(type);
    config["max_position_embeddings"] = 80;
    const auto whole = new_model(small_engine(), config, model_options());
    for (const char* mesh : {"data=2", "fsdp=2", "expert=2", "tensor=2"}) {
      Options options(graph::engine_schema());
      options.set_str("mesh", mesh);
      const auto cut = new_model(cpu::make_engine(options), config, model_options());
      for (const int64_t seq : {31, 32, 33, 70}) {
        const Batch rows = test::small_ids(4, seq, 20);
        const Tensor wanted = forward(*whole, rows).at("logits"),
                     got = forward(*cut, rows).at("logits");
        for (size_t i = 0; i < wanted.as<float>().size(); ++i)
          ASSERT_NEAR(got.as<float>()[i], wanted.as<float>()[i], 1e-4) << type << mesh << seq;
      }
    }
  }
}

// The text model inside a folder of Qwen3.5: its names have a part more, its config lies one level
// deeper.
TEST(GatedDelta, ANestedConfigIsTheSameModel) {
  Json text = hybrid_config("qwen3_5_text"), nested;
  nested["model_type"] = "qwen3_5";
  nested["text_config"] = text;
  const ModelConfig config = config_from_json(nested, "c");
  EXPECT_EQ(config.layers, 4);
  const Json printed = config_to_json(config);
  EXPECT_EQ(printed.at("text_config").at("hidden_size"), text.at("hidden_size"));
  EXPECT_FALSE(printed.contains("hidden_size"));
  const auto specs = find_family(config.family).params(config);
  EXPECT_EQ(specs[0].pieces[0].logical, "model.language_model.embed_tokens.weight");
}

// Qwen3.5-MoE has gate and up of all experts in one tensor: the same layers as Qwen3-Next's, which
// has a tensor for each.
TEST(GatedDelta, JoinedExpertsAreThoseOfSeparateTensors) {
  const auto of = [](const char* type) {
    Json config = hybrid_config(type);
    config["layer_types"] = Json::array();
    for (int layer = 0; layer < 4; ++layer) config["layer_types"].push_back("full_attention");
    return new_model(small_engine(), config, model_options());
  };
  const auto joined = of("qwen3_5_moe_text"), apart = of("qwen3_next");
  const auto matrix_of = [&](const std::string& stack, int64_t expert, int64_t begin, int64_t end) {
    const Tensor all = joined->params().read(stack); // (experts, out, in)
    return all.rows(expert, expert + 1).reshaped(all.shape().without(0)).rows(begin, end);
  };
  for (const std::string& name : apart->params().names()) {
    const size_t at = name.find("experts.");
    if (at == std::string::npos) {
      apart->params().write(name, joined->params().read(name));
      continue;
    }
    const std::string prefix = name.substr(0, at + 8);
    const int64_t expert = name[at + 8] - '0', size = 6;
    if (name.find("gate_proj") != std::string::npos)
      apart->params().write(name, matrix_of(prefix + "gate_up_proj", expert, 0, size));
    else if (name.find("up_proj") != std::string::npos)
      apart->params().write(name, matrix_of(prefix + "gate_up_proj", expert, size, 2 * size));
    else
      apart->params().write(
          name, matrix_of(prefix + "down_proj", expert, 0, joined->config().hidden_size));
  }
  Batch rows;
  rows.set("ids",
           Tensor::from(Shape{2, 6}, std::vector<int32_t>{1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1}));
  const Tensor wanted = forward(*apart, rows).at("logits"),
               got = forward(*joined, rows).at("logits");
  for (size_t i = 0; i < wanted.as<float>().size(); ++i)
    EXPECT_NEAR(got.as<float>()[i], wanted.as<float>()[i], 1e-6) << i;
}

} // namespace
} // namespace dllm::model
