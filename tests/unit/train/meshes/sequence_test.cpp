// Positions of rows cut over mesh axis sequence: the numbers of one rank, the exchanges of theory,
// and what is refused.

#include "../losses/loss_difference.h"
#include "../tiny.h"
#include "base/error.h"
#include "graph/ops.h"
#include "model/network/row_parts.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dllm::train {
namespace {

Json cut_config(int64_t kv_heads) {
  Json config = tiny_config();
  config["vocab_size"] = 32;
  config["hidden_size"] = 16;
  config["num_key_value_heads"] = kv_heads;
  return config;
}

std::unique_ptr<Trainer> cut_trainer(const std::string& mesh, const Json& config,
                                     const std::string& objective = "mdlm",
                                     const Json& values = Json::object()) {
  Options options(noise::objective_schema(objective));
  if (objective == "bd3lm") options.set_i64("block_length", 4);
  return std::make_unique<Trainer>(
      model::new_model(mesh_engine(mesh), config, Options(model::model_schema())),
      noise::make_objective(objective, nullptr, options), trainer_options(values));
}

// 4 heads of keys are exchanged for positions, 1 head is passed on from rank to rank.
TEST(Sequence, TwentyStepsHaveTheLossesOfOneRank) {
  for (const int64_t kv_heads : {4, 1}) {
    const char* const way = kv_heads == 4 ? " (heads for positions)" : " (ring)";
    TextSource source(8);
    const auto one = cut_trainer("", cut_config(kv_heads));
    const std::vector<double> wanted = losses_of(*one, source, 20);
    EXPECT_LT(wanted.back(), 0.9 * wanted.front());
    const auto weights = weights_of(*one);
    for (const char* mesh :
         {"sequence=2", "sequence=4", "sequence=8", "data=2,sequence=2", "fsdp=2,sequence=2",
          "tensor=2,sequence=2", "fsdp=2,tensor=2,sequence=2"}) {
      TextSource own(8);
      const auto trainer = cut_trainer(mesh, cut_config(kv_heads));
      expect_losses(losses_of(*trainer, own, 20), wanted, std::string(mesh) + way);
      EXPECT_NEAR(trainer->metric("grad_norm"), one->metric("grad_norm"), 1e-4) << mesh;
      for (const auto& [name, numbers] : weights_of(*trainer)) {
        for (size_t i = 0; i < numbers.size(); ++i)
          ASSERT_NEAR(numbers[i], weights.at(name)[i], 2e-4) << mesh << " " << name << " " << i;
      }
    }
  }
}

// Causal, bidirectional and two-stream masks. 60 head rows over 4 ranks, of which any number is in
// use.
TEST(Sequence, MasksAndObjectivesAreThoseOfWholeRows) {
  for (const char* objective : {"ar", "mdlm", "llada_sft", "uniform", "bd3lm"}) {
    for (const int64_t kv_heads : {4, 1}) {
      TextSource source(3, 20), own(3, 20);
      const Json config = cut_config(kv_heads);
      const auto wanted = losses_of(*cut_trainer("", config, objective), source, 4);
      expect_losses(losses_of(*cut_trainer("sequence=4", config, objective), own, 4), wanted,
                    objective);
    }
  }
}

TEST(Sequence, SegmentsOfPackedRowsAreThoseOfWholeRows) {
  for (const int64_t kv_heads : {4, 1}) {
    const auto loss = [&](const char* mesh) {
      TextSource source(2, 16);
      Batch batch = *source.next();
      Tensor segments(DType::i32, {2, 16});
      for (size_t i = 0; i < 32; ++i) // 7 tokens, 6 tokens, padding
        segments.mutable_as<int32_t>()[i] = i % 16 < 7 ? 1 : i % 16 < 13 ? 2 : 0;
      batch.set("segments", segments);
      const auto trainer = cut_trainer(mesh, cut_config(kv_heads));
      std::vector<double> losses;
      for (int i = 0; i < 3; ++i) losses.push_back(trainer->step(batch));
      return losses;
    };
    expect_losses(loss("sequence=4"), loss(""), "segments");
  }
}

TEST(Sequence, RecomputedLayersAndMicroBatches) {
  const auto losses = [](const char* mesh) {
    const auto trainer =
        cut_trainer(mesh, cut_config(2), "mdlm", {{"remat", true}, {"accumulate", 2}});
    TextSource source(4);
    std::vector<double> made;
    for (int i = 0; i < 3; ++i) {
      trainer->accumulate(*source.next());
      trainer->accumulate(*source.next());
      made.push_back(trainer->apply());
    }
    return made;
  };
  expect_losses(losses("sequence=2"), losses(""), "accumulate");
}

// Every mask that a ring takes, some of whose queries see nothing of some parts, against attention
// over whole rows.
struct RingMask {
  const char* name;
  graph::Mask (*make)(graph::Graph& graph);
};

graph::Value ints(graph::Graph& graph, const Shape& shape, const std::vector<int32_t>& values) {
  return graph::constant(graph, Tensor::from(shape, values));
}

const RingMask kRingMasks[] = {
    {"full", [](graph::Graph&) { return graph::Mask::full(); }},
    {"causal", [](graph::Graph&) { return graph::Mask::causal(); }},
    {"block_causal",
     [](graph::Graph& graph) { return graph::Mask::block_causal(graph::scalar_i32(graph, 3)); }},
    {"window",
     [](graph::Graph& graph) {
       return graph::Mask::causal().and_window(graph::scalar_i32(graph, 2));
     }},
    {"key_range",
     [](graph::Graph& graph) {
       return graph::Mask().and_key_range(ints(graph, {2}, {3, 0}), ints(graph, {2}, {9, 16}));
     }},
    {"key_limit",
     [](graph::Graph& graph) {
       std::vector<int32_t> limits;
       for (int32_t i = 0; i < 32; ++i) limits.push_back(i * 5 % 17);
       return graph::Mask().and_key_limit(ints(graph, {2, 16}, limits));
     }},
    {"segments",
     [](graph::Graph& graph) {
       std::vector<int32_t> segments;
       for (int32_t i = 0; i < 32; ++i) segments.push_back(i % 16 / 5);
       const graph::Value of = ints(graph, {2, 16}, segments);
       return graph::Mask().and_segments(of, of);
     }},
    {"key_keep",
     [](graph::Graph& graph) {
       std::vector<uint8_t> keep;
       for (int i = 0; i < 32; ++i) keep.push_back(i % 3 == 0);
       return graph::Mask().and_key_keep(graph::constant(graph, Tensor::from(Shape{2, 16}, keep)));
     }},
};

// The result and the gradients of q, k and v for one head of keys, of whole rows.
std::vector<Tensor> attend(const RingMask& mask, int64_t m) {
  const auto engine = mesh_engine("sequence=" + std::to_string(m));
  auto graph = std::make_shared<graph::Graph>("rows");
  std::vector<graph::Value> whole, own;
  std::vector<graph::BufferRef> buffers;
  for (const int64_t heads : {3, 1, 1}) {
    const Shape shape{2, 16, heads, 8};
    whole.push_back(graph->input("x" + std::to_string(whole.size()), DType::f32, shape));
    own.push_back(model::own_positions(whole.back(), m));
    Tensor numbers(DType::f32, shape);
    const auto out = numbers.mutable_as<float>();
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<float>(std::sin(static_cast<double>(i * (whole.size() + 1)) * 0.7));
    buffers.push_back(engine->upload(numbers));
  }
  graph::AttentionOptions options;
  options.scale = 0.4f;
  options.softcap = 3.0f;
  const graph::Value mixed = model::all_positions(
      model::row_attention(own[0], own[1], own[2], mask.make(*graph), options, m), m);
  graph->output("mixed", mixed);
  const graph::Value loss = graph::sum(graph::multiply(mixed, mixed), {0, 1, 2, 3});
  for (const graph::Value& gradient : graph::gradients(loss, whole))
    graph->output("gradient" + std::to_string(graph->outputs().size()), gradient);
  std::vector<Tensor> made;
  for (const graph::BufferRef& buffer : engine->compile(graph)->run(buffers))
    made.push_back(buffer->read().clone());
  return made;
}

TEST(Sequence, KeysThatArePassedOnAreThoseOfWholeRows) {
  for (const RingMask& mask : kRingMasks) {
    const std::vector<Tensor> wanted = attend(mask, 1);
    for (const int64_t m : {2, 4, 8}) {
      const std::vector<Tensor> got = attend(mask, m);
      ASSERT_EQ(got.size(), 4u);
      for (size_t k = 0; k < got.size(); ++k) {
        for (size_t i = 0; i < got[k].as<float>().size(); ++i)
          ASSERT_NEAR(got[k].as<float>()[i], wanted[k].as<float>()[i], 2e-5)
              << mask.name << ' ' << m << " output " << k << " element " << i;
      }
    }
  }
}

// q, k, v and the result have N bytes each on m ranks together. The four exchanges send N (m - 1) /
// m of each, the last gathering N (m - 1). The gradient sends as much again for the four, and a sum
// over the ranks 2 n (m - 1) for its n bytes: of q, k, v and of the loss.
TEST(Sequence, AttentionSendsTheBytesOfTheory) {
  const Shape shape{2, 16, 4, 8};
  const int64_t bytes = shape.count() * 4;
  const auto sent = [&](int64_t m, bool trains) {
    const auto engine = mesh_engine("sequence=" + std::to_string(m));
    auto graph = std::make_shared<graph::Graph>("rows");
    std::vector<graph::Value> whole, own;
    std::vector<graph::BufferRef> buffers;
    for (const char* name : {"q", "k", "v"}) {
      whole.push_back(graph->input(name, DType::f32, shape));
      own.push_back(model::own_positions(whole.back(), m));
      Tensor numbers(DType::f32, shape);
      for (float& x : numbers.mutable_as<float>()) x = 0.01f * static_cast<float>(buffers.size());
      buffers.push_back(engine->upload(numbers));
    }
    const graph::Value mixed =
        model::row_attention(own[0], own[1], own[2], graph::Mask::causal(), {}, m);
    if (trains) {
      const graph::Value loss =
          graph::all_reduce(graph::sum(graph::multiply(mixed, mixed), {0, 1, 2, 3}),
                            graph::AxisSet(graph::Axis::sequence));
      for (const graph::Value& gradient : graph::gradients(loss, whole))
        graph->output("gradient" + std::to_string(graph->outputs().size()), gradient);
      graph->output("loss", loss);
    } else {
      graph->output("mixed", model::all_positions(mixed, m));
    }
    const auto program = engine->compile(graph);
    const int64_t before = engine->i64("bytes_sent");
    program->run(buffers);
    return engine->i64("bytes_sent") - before;
  };
  for (const int64_t m : {2, 4}) {
    EXPECT_EQ(sent(m, false), (m - 1) * (4 * bytes / m + bytes)) << m;
    EXPECT_EQ(sent(m, true), (m - 1) * (8 * bytes / m + 6 * bytes + 2 * 4)) << m;
  }
}

// One head of keys and values, s bytes of both on a rank: m - 1 times s forward. In one graph the
// keys that were passed on serve the gradient too; its own sums go all the way round, m times s.
// (In a loop over layers keys go round once more.)
TEST(Sequence, ARingSendsTheBytesOfTheory) {
  const auto sent = [&](int64_t m, bool trains) {
    const auto engine = mesh_engine("sequence=" + std::to_string(m));
    auto graph = std::make_shared<graph::Graph>("rows");
    std::vector<graph::Value> own;
    std::vector<graph::BufferRef> buffers;
    const graph::AxisSet sequence(graph::Axis::sequence);
    for (const int64_t heads : {3, 1, 1}) {
      const Shape shape{2, 16 / m, heads, 8}; // of a rank
      own.push_back(
          graph::vary(graph->input("x" + std::to_string(own.size()), DType::f32, shape), sequence));
      buffers.push_back(engine->upload(Tensor(DType::f32, shape)));
    }
    const graph::Value mixed =
        model::row_attention(own[0], own[1], own[2], graph::Mask::causal(), {}, m);
    const graph::Value total =
        graph::all_reduce(graph::sum(graph::multiply(mixed, mixed), {0, 1, 2, 3}), sequence);
    graph->output("loss", total);
    if (trains) {
      for (const graph::Value& gradient : graph::gradients(total, own))
        graph->output("gradient" + std::to_string(graph->outputs().size()),
                      graph::all_reduce(graph::sum(gradient, {0, 1, 2, 3}), sequence));
    }
    const auto program = engine->compile(graph);
    const int64_t before = engine->i64("bytes_sent");
    program->run(buffers);
    return engine->i64("bytes_sent") - before;
  };
  for (const int64_t m : {2, 4}) {
    const int64_t keys = 2 * (2 * 16 * 8) * 4; // of all ranks, and values
    const int64_t sums = 2 * (m - 1) * 4;      // of one number
    EXPECT_EQ(sent(m, false), (m - 1) * keys + sums) << m;
    EXPECT_EQ(sent(m, true), (2 * m - 1) * keys + 4 * sums) << m;
  }
}

// Every rank decodes and evaluates whole rows.
TEST(Sequence, LogitsAndHeldOutLossesAreThoseOfOneRank) {
  const auto loss = [](const char* mesh) {
    TextSource held(4, 15); // does not divide
    return cut_trainer(mesh, cut_config(2))->eval(held, 2);
  };
  expect_losses({loss("sequence=2")}, {loss("")}, "held out");
}

TEST(Sequence, LayersThatNeedWholeRowsAreNamed) {
  Json config = tiny_config();
  config.update({{"model_type", "qwen3_5_text"},
                 {"num_hidden_layers", 4},
                 {"partial_rotary_factor", 0.5},
                 {"head_dim", 8},
                 {"linear_num_key_heads", 2},
                 {"linear_num_value_heads", 4},
                 {"linear_key_head_dim", 6},
                 {"linear_value_head_dim", 5}});
  try {
    cut_trainer("sequence=2", config);
    ADD_FAILURE() << "a recurrence was cut";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unimplemented);
    EXPECT_NE(error.text().find("gated_delta are not cut over the axis sequence"),
              std::string::npos)
        << error.text();
  }
}

} // namespace
} // namespace dllm::train
