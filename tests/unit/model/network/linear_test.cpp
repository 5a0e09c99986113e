// Products with parameters: adapters, partitions, and which matrices are trained.

#include "model/adapters/adapter.h"
#include "model/adapters/kinds/adapter_kinds.h"
#include "model/network/linear.h"

#include "graph/ops.h"
#include "model/model.h"
#include "model/network/builder.h"
#include "unit/model/model_tools.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

namespace dllm::model {
namespace {

using test::expect_error;
using test::model_options;
using test::small_config;
using test::small_engine;
using test::small_ids;

Tensor wave(Shape shape, float step) {
  Tensor made(DType::f32, std::move(shape));
  const auto out = made.mutable_as<float>();
  for (size_t i = 0; i < out.size(); ++i) out[i] = std::sin(step * static_cast<float>(i + 1));
  return made;
}

struct Toy {
  Tensor x = wave({5, 6}, 0.3f), w = wave({4, 6}, 0.7f), b = wave({4}, 1.1f),
         down = wave({2, 6}, 0.2f), up = wave({4, 2}, 0.9f);
  float factor = 1.5f;
};

// Outputs of the toy y = x W^T + b + factor (x A^T) B^T, and gradients of sum(y^2) for `wanted`.
std::map<std::string, Tensor> run_toy(const Toy& toy, const std::vector<std::string>& wanted) {
  const auto engine = small_engine();
  const auto graph = std::make_shared<graph::Graph>("toy");
  std::map<std::string, graph::Value> values;
  std::vector<graph::BufferRef> inputs;
  const auto add = [&](const char* name, const Tensor& tensor) {
    values[name] = graph->input(name, tensor.dtype(), tensor.shape());
    inputs.push_back(engine->upload(tensor));
  };
  add("x", toy.x), add("w", toy.w), add("w.bias", toy.b), add("adapter:toy/w.lora_a", toy.down),
      add("adapter:toy/w.lora_b", toy.up);
  const Linear linear = find_linear(
      [&](const std::string& name) -> NamedParam {
        const auto found = values.find(name);
        if (found == values.end()) return {};
        return {found->second, name == "adapter:toy/w.lora_b" ? toy.factor : 1.0f, {}};
      },
      "w", {{"adapter:toy", &find_adapter_kind("lora")}});
  const graph::Value y = product(linear, values["x"]);
  graph->output("y", y);
  std::vector<graph::Value> wrt;
  for (const std::string& name : wanted) wrt.push_back(values[name]);
  const graph::Value loss = graph::sum(graph::multiply(y, y), {0, 1});
  graph->output("loss", loss);
  const std::vector<graph::Value> grads = wrt.empty() ? wrt : graph::gradients(loss, wrt);
  for (size_t i = 0; i < wanted.size(); ++i) graph->output("d" + wanted[i], grads[i]);
  const auto results = engine->compile(graph)->run(inputs);
  std::map<std::string, Tensor> made;
  for (size_t i = 0; i < results.size(); ++i) made[graph->outputs()[i].name] = results[i]->read();
  return made;
}

TEST(Linear, AdaptersAddTheirProduct) {
  const Toy toy;
  const Tensor y = run_toy(toy, {}).at("y");
  const auto at = [](const Tensor& m, int64_t r, int64_t c) {
    return static_cast<double>(m.as<float>()[static_cast<size_t>(r * m.shape()[-1] + c)]);
  };
  for (int64_t r = 0; r < 5; ++r) {
    for (int64_t o = 0; o < 4; ++o) {
      double sum = toy.b.as<float>()[static_cast<size_t>(o)];
      for (int64_t i = 0; i < 6; ++i) {
        double weight = at(toy.w, o, i);
        for (int64_t k = 0; k < 2; ++k)
          weight += toy.factor * at(toy.up, o, k) * at(toy.down, k, i);
        sum += at(toy.x, r, i) * weight;
      }
      EXPECT_NEAR(at(y, r, o), sum, 1e-5) << r << ' ' << o;
    }
  }
}

// Central differences of step h: error h^2 and rounding 1e-7 loss / h.
TEST(Linear, AdaptersHaveGradients) {
  const Toy toy;
  const auto exact = run_toy(toy, {"adapter:toy/w.lora_a", "adapter:toy/w.lora_b"});
  for (const char* name : {"adapter:toy/w.lora_a", "adapter:toy/w.lora_b"}) {
    const Tensor& gradient = exact.at(std::string("d") + name);
    for (const int64_t i : {int64_t{0}, int64_t{3}, gradient.count() - 1}) {
      double loss[2];
      for (const int side : {0, 1}) {
        Toy moved = toy;
        Tensor& part = std::strcmp(name, "adapter:toy/w.lora_a") == 0 ? moved.down : moved.up;
        part = part.clone();
        part.mutable_as<float>()[static_cast<size_t>(i)] += side == 0 ? -0.01f : 0.01f;
        loss[side] = run_toy(moved, {}).at("loss").as<float>()[0];
      }
      const double slope = (loss[1] - loss[0]) / 0.02;
      EXPECT_NEAR(gradient.as<float>()[static_cast<size_t>(i)], slope, 2e-2 * (1 + std::abs(slope)))
          << name << ' ' << i;
    }
  }
}

// Row-parallel: the products of the ranks are summed before the bias; FSDP: the weight is gathered;
// column-parallel: the part is the rank's own.
TEST(Linear, PartitionsAreCollectives) {
  const auto ops_of = [](const Partition& partition, graph::Axis axis, int64_t outputs) {
    graph::Graph graph("g");
    const graph::AxisSet cut(axis);
    const bool rows = partition.kind == PartitionKind::rows;
    Linear linear;
    linear.weight = graph.input("w", {Shape{4, 6}, DType::f32, cut});
    linear.bias = graph.input("b", {Shape{outputs}, DType::f32, {}});
    linear.partition = partition;
    const graph::Value x =
        graph.input("x", {Shape{5, 6}, DType::f32, rows ? cut : graph::AxisSet()});
    const graph::Value y = product(linear, x);
    return std::pair(graph.dump(), y.type());
  };
  using graph::Axis;
  const auto [rows, rows_type] = ops_of({PartitionKind::rows, 2}, Axis::tensor, 4);
  EXPECT_NE(rows.find("all_reduce"), std::string::npos) << rows;
  EXPECT_TRUE(rows_type.axes.empty());
  const auto [gathered, gathered_type] = ops_of({PartitionKind::none, 1, 0, 2}, Axis::fsdp, 8);
  EXPECT_NE(gathered.find("all_gather"), std::string::npos) << gathered;
  EXPECT_EQ(gathered_type.shape, (Shape{5, 8}));
  EXPECT_TRUE(gathered_type.axes.empty());
  const auto [columns, columns_type] = ops_of({PartitionKind::columns, 2}, Axis::tensor, 4);
  EXPECT_EQ(columns.find("all_"), std::string::npos) << columns;
  EXPECT_FALSE(columns_type.axes.empty());
}

Tensor logits_of(Model& model) {
  return forward(model, small_ids(2, 9, 23)).at("logits");
}

void expect_close(const Tensor& a, const Tensor& b, double tolerance) {
  ASSERT_EQ(a.shape(), b.shape());
  for (size_t i = 0; i < a.as<float>().size(); ++i)
    ASSERT_NEAR(a.as<float>()[i], b.as<float>()[i], tolerance) << i;
}

// A new adapter changes nothing; merged, the model computes what it did with it.
TEST(Adapters, StartAtZeroAndMerge) {
  for (const char* family : {"llama", "gpt2", "qwen3_moe"}) {
    const bool moe = std::strcmp(family, "qwen3_moe") == 0;
    const auto model = new_model(small_engine(), small_config(family), model_options());
    const Tensor before = logits_of(*model);
    const std::vector<std::string> names = model->params().names(kBasePart);
    const char* target = std::strcmp(family, "gpt2") == 0 ? "*.c_attn.weight"
                         : moe                            ? "*.mlp.experts.*.down_proj.weight"
                                                          : "*_proj.weight";
    add_adapter(*model, {{target}, {3, 6}, 1});
    EXPECT_EQ(model->params().names(kBasePart), names);
    EXPECT_GT(model->params().names("adapter:default").size(), 1U);
    EXPECT_FALSE(model->parts().adapters().empty());
    expect_close(logits_of(*model), before, 0);
    int64_t trained = 0;
    for (const ParamStore::Physical& entry : model->params().physical()) {
      EXPECT_EQ(model->trained()(entry), entry.spec.role == ParamRole::adapter) << entry.name;
      trained += model->trained()(entry) ? 1 : 0;
      if (entry.name.ends_with(".lora_b")) {
        for (int64_t layer = 0; layer < entry.spec.copies(); ++layer) {
          for (const ParamPiece& piece : entry.spec.pieces)
            model->params().write(entry.spec.logical_name(piece, layer),
                                  wave(entry.spec.logical_shape(piece), 0.5f));
        }
      }
    }
    EXPECT_GE(trained, 2);
    const Tensor with = logits_of(*model);
    double moved = 0;
    for (size_t i = 0; i < with.as<float>().size(); ++i)
      moved = std::max(moved,
                       std::abs(static_cast<double>(with.as<float>()[i]) - before.as<float>()[i]));
    EXPECT_GT(moved, 1e-3) << family;
    const test::TempFolder folder;
    expect_error(Code::unimplemented, "has adapters",
                 [&] { save_model(*model, folder.path("m"), Options(save_schema())); });
    Options merges(save_schema());
    merges.set_json({{"merge", true}});
    save_model(*model, folder.path("sums"), merges);
    EXPECT_FALSE(model->parts().adapters().empty());
    const auto saved = load_model(small_engine(), folder.path("sums"), model_options());
    expect_close(logits_of(*saved), with, 1e-4);
    merge_adapters(*model);
    EXPECT_TRUE(model->parts().adapters().empty());
    expect_close(logits_of(*model), with, 1e-4); // W + B A is rounded once more
  }
}

void fill(Model& model, const std::string& part, float size) {
  for (const std::string& name : model.params().names(part)) {
    Tensor values = model.params().read(name).clone();
    const Tensor added = wave(values.shape(), size);
    for (size_t i = 0; i < added.as<float>().size(); ++i)
      values.mutable_as<float>()[i] += added.as<float>()[i];
    model.params().write(name, values);
  }
}

// DoRA next to LoRA: both change what the base computes, and a merge adds both at once.
TEST(Adapters, DoraStartsAtZeroScalesAndMerges) {
  for (const char* family : {"llama", "gpt2", "qwen2"}) {
    const auto model = new_model(small_engine(), small_config(family), model_options());
    const Tensor before = logits_of(*model);
    const char* target = std::strcmp(family, "gpt2") == 0 ? "*.c_attn.weight" : "*_proj.weight";
    AdapterOptions dora{{target}, {3, 6}, 1};
    dora.settings.kind = "dora";
    dora.name = "dora";
    add_adapter(*model, dora);
    expect_close(logits_of(*model), before, 1e-5);
    fill(*model, "adapter:dora", 0.3f);
    const Tensor alone = logits_of(*model);
    set_adapter_scale(*model, "dora", 0);
    expect_close(logits_of(*model), before, 1e-6);
    set_adapter_scale(*model, "dora", 0.5);
    add_adapter(*model, {{target}, {2, 4}, 5, "lora"});
    fill(*model, "adapter:lora", 0.2f);
    const Tensor both = logits_of(*model);
    EXPECT_FALSE(test::same_bytes(both, alone)) << family;
    expect_error(Code::failed_precondition, "adapter dora is DoRA",
                 [&] { merge_adapter(*model, "lora"); });
    const test::TempFolder folder;
    Options merges(save_schema());
    merges.set_json({{"merge", true}});
    save_model(*model, folder.path("sums"), merges);
    expect_close(logits_of(*load_model(small_engine(), folder.path("sums"), model_options())), both,
                 1e-4);
    merge_adapters(*model);
    EXPECT_EQ(list_adapters(*model), Json::array());
    expect_close(logits_of(*model), both, 1e-4);
  }
}

// A row of zeros has no direction, and no number that is not finite comes of it.
TEST(Adapters, DoraOfARowOfZerosIsFinite) {
  const auto model = new_model(small_engine(), small_config("llama"), model_options());
  const std::string name = "model.layers.0.self_attn.q_proj.weight";
  Tensor values = model->params().read(name).clone();
  std::ranges::fill(values.mutable_as<float>(), 0.0f);
  model->params().write(name, values);
  const Tensor before = logits_of(*model);
  AdapterOptions dora{{"q_proj"}, {3, 6}, 1};
  dora.settings.kind = "dora";
  add_adapter(*model, dora);
  expect_close(logits_of(*model), before, 1e-5);
  merge_adapters(*model);
  expect_close(logits_of(*model), before, 1e-5);
}

TEST(Adapters, NameWhatTheyCannotHave) {
  const auto model = new_model(small_engine(), small_config("llama"), model_options());
  expect_error(Code::not_found, "choose no matrix of this model", [&] {
    add_adapter(*model, {{"nothing*"}, {2, 2}, 0});
  });
  expect_error(Code::unimplemented, "embed_tokens is not a matrix of a layer", [&] {
    add_adapter(*model, {{"*embed_tokens*"}, {2, 2}, 0});
  });
  const auto experts = new_model(small_engine(), small_config("qwen3_moe"), model_options());
  expect_error(Code::unimplemented, "DoRA is for single matrices", [&] {
    AdapterOptions dora{{"*.mlp.experts.*.down_proj.weight"}, {2, 2}, 0};
    dora.settings.kind = "dora";
    add_adapter(*experts, dora);
  });
  expect_error(Code::invalid_argument, "rank 0", [&] {
    add_adapter(*model, {{"*q_proj*"}, {0, 2}, 0});
  });
}

// The words of targets, and the modules that get a matrix A.
TEST(Adapters, AreForTheChosenModules) {
  const auto modules_of = [](const Json& values) {
    const auto model = new_model(small_engine(), small_config("llama"), model_options());
    Options options(adapter_schema());
    options.set_json(values);
    add_adapter(*model, adapter_options("a", options));
    std::vector<std::string> modules;
    for (const std::string& name : model->params().names("adapter:a")) {
      const size_t end = name.find(".lora_A");
      if (end != std::string::npos)
        modules.push_back(name.substr(name.find('/') + 1, end - name.find('/') - 1));
    }
    std::ranges::sort(modules);
    return modules;
  };
  const auto of_layers = [](const std::vector<int>& layers, const std::vector<std::string>& ends) {
    std::vector<std::string> modules;
    for (const int layer : layers) {
      for (const std::string& end : ends)
        modules.push_back(fmt::format("model.layers.{}.{}", layer, end));
    }
    std::ranges::sort(modules);
    return modules;
  };
  const std::vector<std::string> linear = {
      "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
      "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};
  const std::string q = linear[0], down = linear[6];
  EXPECT_EQ(modules_of(Json::object()), of_layers({0, 1, 2}, linear));
  EXPECT_EQ(modules_of({{"targets", {"q_proj", "down"}}}), of_layers({0, 1, 2}, {q, down}));
  EXPECT_EQ(modules_of({{"targets", {"q", "o"}}}), of_layers({0, 1, 2}, {q, linear[3]}));
  EXPECT_EQ(modules_of({{"targets", {"*.self_attn.*"}}, {"exclude", {"k", "v_proj"}}}),
            of_layers({0, 1, 2}, {q, linear[3]}));
  EXPECT_EQ(modules_of({{"targets", {"q"}}, {"layers", {"1-2"}}}), of_layers({1, 2}, {q}));
  EXPECT_EQ(modules_of({{"layers", {"0", "2"}}}), of_layers({0, 2}, linear));
  EXPECT_EQ(modules_of({{"targets", {"model.layers.1.mlp.up_proj"}}}), of_layers({1}, {linear[5]}));
  for (const char* range : {"x", "2-1", "-1", "1-", "9999"})
    expect_error(Code::invalid_argument, range, [&] { modules_of({{"layers", {range}}}); });
  expect_error(Code::invalid_argument, "layers has 7, and the model has layers 0 to 2", [&] {
    modules_of({{"layers", {"0", "5-7"}}});
  });
  expect_error(Code::not_found, "choose no matrix", [&] {
    modules_of({{"targets", {"q"}}, {"exclude", {"self_attn.q_proj"}}});
  });
  // Each word has to name a matrix, also next to others that do.
  expect_error(Code::not_found, "targets \"q_porj\" names no matrix", [&] {
    modules_of({{"targets", {"v_proj", "q_porj"}}});
  });
  expect_error(Code::not_found, "exclude \"*.attn.*\" names no matrix", [&] {
    modules_of({{"exclude", {"*.attn.*"}}});
  });
}

// An adapter of some layers, and of several ranks, computes what its merged model computes.
TEST(Adapters, OfSomeLayersAndSeveralRanks) {
  for (const char* dtype : {"f32", "int8"}) {
    const auto model =
        new_model(small_engine(), small_config("llama"), model_options({{"dtype", dtype}}));
    const Tensor before = logits_of(*model);
    Options texts(adapter_schema());
    texts.set_json({{"rank", 8},
                    {"rank_pattern", {"layers\\.2\\.self_attn\\.q_proj=5", "up_proj=3"}},
                    {"alpha_pattern", {"up_proj=6"}}});
    AdapterOptions options = adapter_options("default", texts);
    options.targets = AdapterTargets({"*.1.self_attn.*", "*.2.self_attn.*", "up_proj"});
    add_adapter(*model, options);
    EXPECT_TRUE(test::same_bytes(logits_of(*model), before)) << dtype; // B is zero
    const ParamStore& params = model->params();
    const auto rank_of = [&](const std::string& module) {
      return params.shape(module + ".lora_A.weight")[0];
    };
    EXPECT_EQ(rank_of("model.layers.1.self_attn.q_proj"), 8);
    EXPECT_EQ(rank_of("model.layers.2.self_attn.q_proj"), 5);
    EXPECT_EQ(rank_of("model.layers.0.mlp.up_proj"), 3);
    EXPECT_FALSE(params.has("model.layers.0.self_attn.q_proj.lora_A.weight"));
    for (const std::string& name : params.names("adapter:default")) {
      if (name.find("lora_B") == std::string::npos) continue;
      Tensor values(DType::f32, params.shape(name));
      for (float& x : values.mutable_as<float>()) x = 0.03f;
      model->params().write(name, values);
    }
    const Tensor with = logits_of(*model);
    EXPECT_FALSE(test::same_bytes(with, before));
    set_adapter_scale(*model, "default", 0);
    expect_close(logits_of(*model), before, 1e-6);
    set_adapter_scale(*model, "default", 1);
    EXPECT_TRUE(test::same_bytes(logits_of(*model), with));
    if (std::string(dtype) != "f32") continue; // int8 rounds the sum
    merge_adapter(*model, "default");
    expect_close(logits_of(*model), with, 1e-4);
    EXPECT_EQ(list_adapters(*model), Json::array());
  }
}

TEST(Adapters, PatternsOfOptionsAreChecked) {
  for (const char* entry : {"q_proj", "=4", "q_proj=", "q_proj=x", "q_proj=0", "q_proj=2.5"}) {
    Options options(adapter_schema());
    options.set_json({{"rank_pattern", {entry}}});
    expect_error(Code::invalid_argument, "is not PATTERN=NUMBER",
                 [&] { adapter_options("a", options); });
  }
}

// Freezing some layers cuts the run of layers there; the model computes the same bits.
TEST(Trainability, IsPerMatrix) {
  for (const char* dtype : {"f32", "int8"}) {
    const auto model =
        new_model(small_engine(), small_config("llama"), model_options({{"dtype", dtype}}));
    const Tensor before = logits_of(*model);
    std::map<std::string, Tensor> numbers;
    for (const std::string& name : model->params().names())
      numbers[name] = model->params().read(name);
    const int64_t count = model->i64("params");
    const std::string pattern = "model.layers.1.mlp.gate_proj.weight";
    model->params().cut_at(model->params().borders_of(pattern));
    const Selection selection({kBasePart}, {pattern});
    std::map<std::string, bool> trainable;
    for (const ParamStore::Physical& entry : model->params().physical())
      trainable[entry.name] = selection.trains(entry);
    EXPECT_TRUE(trainable.at("layers.gate"));
    EXPECT_FALSE(trainable.at("layers@1.gate"));
    EXPECT_TRUE(trainable.at("layers@2.gate"));
    EXPECT_TRUE(trainable.at("layers@1.q"));
    EXPECT_TRUE(test::same_bytes(logits_of(*model), before)) << dtype;
    for (const auto& [name, value] : numbers)
      EXPECT_TRUE(test::same_bytes(model->params().read(name), value)) << name;
    EXPECT_EQ(model->i64("params"), count);
    EXPECT_TRUE(test::same_bytes(logits_of(*clone_model(*model)), before)) << dtype;
    model->params().make_masters(model->trained());
    if (std::strcmp(dtype, "f32") != 0) continue;
    EXPECT_TRUE(test::same_bytes(logits_of(*model), before));
  }
  const auto experts = new_model(small_engine(), small_config("qwen3_moe"), model_options());
  expect_error(Code::unimplemented, "1 of the 6 tensors of layer", [&] {
    experts->params().borders_of("model.layers.0.mlp.experts.2.up_proj.weight");
  });
}

} // namespace
} // namespace dllm::model
