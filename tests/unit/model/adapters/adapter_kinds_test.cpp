// Every row of the table of kinds of adapters: what is promised for each kind, so that a new kind
// is tested by being in the table.

#include "graph/ops.h"
#include "model/adapters/adapter.h"
#include "model/adapters/adapter_config.h"
#include "model/adapters/adapter_file.h"
#include "model/adapters/adapter_save.h"
#include "model/adapters/kinds/adapter_kinds.h"
#include "model/network/linear.h"
#include "unit/model/model_tools.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace dllm::model {
namespace {

using test::expect_error;
using test::model_options;
using test::small_config;
using test::small_engine;
using test::small_ids;

constexpr const char* kFamilies[] = {"llama", "gpt2", "qwen2"}; // qwen2 and gpt2 have biases

std::shared_ptr<Model> kind_base(const char* family) {
  return new_model(small_engine(), small_config(family), model_options());
}

Tensor kind_logits(Model& model) {
  return forward(model, small_ids(2, 9, 23)).at("logits").clone();
}

Options options_of(const AdapterKind& kind, const Json& more = Json::object()) {
  Options options(adapter_schema());
  options.set_json({{"kind", kind.name}, {"seed", 3}});
  options.set_json(more);
  return options;
}

void add_kind(Model& model, const AdapterKind& kind, const std::string& name = "default",
              const Json& more = Json::object()) {
  add_adapter(model, adapter_options(name, options_of(kind, more)));
}

Tensor moved_by(const Tensor& values, float step) {
  Tensor made = values.clone();
  float at = 0;
  for (float& value : made.mutable_as<float>()) value += 0.2f * std::sin(step * ++at);
  return made;
}

// Gives an adapter numbers as training would.
void move_all(Model& model, const std::string& part) {
  float step = 0.3f;
  for (const std::string& name : model.params().names(part))
    model.params().write(name, moved_by(model.params().read(name), step += 0.01f));
}

double distance(const Tensor& a, const Tensor& b) {
  double most = 0;
  for (size_t i = 0; i < a.as<float>().size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(a.as<float>()[i]) - b.as<float>()[i]));
  return most;
}

template <class Test> void for_each_kind(const Test& test) {
  for (const AdapterKind* kind : adapter_kinds()) {
    SCOPED_TRACE(kind->name);
    test(*kind);
  }
}

TEST(AdapterKinds, RowsHaveWhatTheTableNeeds) {
  std::set<std::string> names;
  for_each_kind([&](const AdapterKind& kind) {
    EXPECT_TRUE(names.insert(kind.name).second);
    EXPECT_EQ(&find_adapter_kind(kind.name), &kind);
    ASSERT_FALSE(kind.tensors.empty());
    const bool has_scale = std::ranges::any_of(kind.tensors, &AdapterTensor::has_scale);
    EXPECT_TRUE(has_scale);
    for (const AdapterTensor& tensor : kind.tensors) {
      EXPECT_TRUE(is_adapter_tensor("layers.q" + std::string(tensor.suffix)));
      EXPECT_TRUE(tensor.ending.starts_with("."));
    }
    EXPECT_FALSE(adapter_keys(kind).empty());
  });
  for (const char* stack : {"layers.q", "layers.q.bias", "embedding", "layers.norm"})
    EXPECT_FALSE(is_adapter_tensor(stack));
  expect_error(Code::not_found, "there is no kind named \"lroa\"",
               [] { find_adapter_kind("lroa"); });
}

// DoRA divides by norms that it computes again, which rounds; other kinds add zeros.
TEST(AdapterKinds, ANewOneChangesNothing) {
  for_each_kind([](const AdapterKind& kind) {
    for (const char* family : kFamilies) {
      const auto model = kind_base(family);
      const Tensor before = kind_logits(*model);
      add_kind(*model, kind);
      EXPECT_LE(distance(kind_logits(*model), before), 1e-5) << family;
      int64_t trained = 0;
      for (const ParamStore::Physical& entry : model->params().physical()) {
        EXPECT_EQ(model->trained()(entry), entry.spec.role == ParamRole::adapter) << entry.name;
        trained += model->trained()(entry) ? 1 : 0;
      }
      EXPECT_GT(trained, 0);
      const Json row = list_adapters(*model)[0];
      EXPECT_EQ(row.at("kind"), kind.name);
      EXPECT_GT(row.at("modules").get<int64_t>(), 0);
      EXPECT_EQ(row.at("bytes"), 4 * row.at("params").get<int64_t>());
    }
  });
}

TEST(AdapterKinds, AScaleOfZeroTurnsItOff) {
  for_each_kind([](const AdapterKind& kind) {
    const auto model = kind_base("qwen2");
    const Tensor before = kind_logits(*model);
    add_kind(*model, kind);
    move_all(*model, "adapter:default");
    const Tensor with = kind_logits(*model);
    EXPECT_GT(distance(with, before), 1e-3);
    set_adapter_scale(*model, "default", 0);
    EXPECT_LE(distance(kind_logits(*model), before), 1e-6);
    set_adapter_scale(*model, "default", 0.5);
    EXPECT_GT(distance(kind_logits(*model), before), 1e-4);
    EXPECT_GT(distance(kind_logits(*model), with), 1e-4);
    set_adapter_scale(*model, "default", 1);
    EXPECT_TRUE(test::same_bytes(kind_logits(*model), with));
  });
}

// The merge rounds the sums once more.
TEST(AdapterKinds, AMergeIsThePass) {
  for_each_kind([](const AdapterKind& kind) {
    for (const char* family : kFamilies) {
      const auto model = kind_base(family);
      add_kind(*model, kind);
      move_all(*model, "adapter:default");
      set_adapter_scale(*model, "default", 0.7);
      const Tensor with = kind_logits(*model);
      const test::TempFolder folder;
      Options merges(save_schema());
      merges.set_json({{"merge", true}});
      save_model(*model, folder.path("sums"), merges);
      const auto saved = load_model(small_engine(), folder.path("sums"), model_options());
      EXPECT_LE(distance(kind_logits(*saved), with), 2e-4) << family;
      merge_adapter(*model, "default");
      EXPECT_LE(distance(kind_logits(*model), with), 2e-4) << family;
      EXPECT_EQ(list_adapters(*model), Json::array());
    }
  });
}

// Two adapters: their changes of one base are added, in a pass and in a merge of both.
TEST(AdapterKinds, AreAddedToOthers) {
  for_each_kind([](const AdapterKind& kind) {
    for_each_kind([&](const AdapterKind& other) {
      const auto model = kind_base("qwen2");
      add_kind(*model, kind, "first");
      add_kind(*model, other, "second", {{"targets", {"q", "down"}}});
      move_all(*model, "adapter:first");
      const Tensor alone = kind_logits(*model);
      move_all(*model, "adapter:second");
      const Tensor both = kind_logits(*model);
      EXPECT_GT(distance(both, alone), 1e-3);
      const std::string text = std::string("adapter first is ") + kind.title;
      if (kind.merge.reads_weights != nullptr) {
        expect_error(Code::failed_precondition, text.c_str(),
                     [&] { merge_adapter(*model, "second"); });
      }
      merge_adapters(*model);
      EXPECT_LE(distance(kind_logits(*model), both), 2e-4);
    });
  });
}

TEST(AdapterKinds, AreSavedForPeftAndLoaded) {
  for_each_kind([](const AdapterKind& kind) {
    for (const Json& more : {Json::object(), Json{{"targets", {"v", "up", "down"}}},
                             Json{{"layers", {"1"}}, {"modules_to_save", {"norm"}}}}) {
      SCOPED_TRACE(more.dump());
      const auto model = kind_base("llama"), other = kind_base("llama");
      add_kind(*model, kind, "default", more);
      move_all(*model, "adapter:default");
      const test::TempFolder folder;
      save_adapter(*model, "default", folder.path("adapter"));
      const std::string file = folder.path("adapter") + "/adapter_config.json";
      const Json config = parse_json(read_text(file), file);
      EXPECT_EQ(config.at("peft_type"), kind.peft.type);
      const AdapterConfig read(config, file);
      EXPECT_EQ(&read.kind(), &kind);
      std::set<std::string> keys; // PEFT refuses or warns of a key that its config lacks
      for (const AdapterKey& key : adapter_keys(kind)) keys.insert(key.name);
      for (const auto& [key, value] : config.items()) EXPECT_TRUE(keys.contains(key)) << key;
      load_adapter(*other, "default", folder.path("adapter"));
      EXPECT_TRUE(test::same_bytes(kind_logits(*other), kind_logits(*model)));
      EXPECT_EQ(list_adapters(*other), list_adapters(*model));
      for (const std::string& name : model->params().names("adapter:default"))
        EXPECT_TRUE(test::same_bytes(other->params().read(name), model->params().read(name)));
    }
  });
}

TEST(AdapterKinds, ExpertsAreChangedOrRefused) {
  for_each_kind([](const AdapterKind& kind) {
    const auto model = kind_base("qwen3_moe");
    const Tensor before = kind_logits(*model);
    const Json targets = {{"targets", {"*.mlp.experts.*.down_proj.weight"}}};
    if (kind.graph.experts == nullptr) {
      expect_error(Code::unimplemented, kind.title,
                   [&] { add_kind(*model, kind, "default", targets); });
      EXPECT_EQ(list_adapters(*model), Json::array());
      return;
    }
    add_kind(*model, kind, "default", targets);
    EXPECT_LE(distance(kind_logits(*model), before), 1e-5);
    move_all(*model, "adapter:default");
    const Tensor with = kind_logits(*model);
    EXPECT_GT(distance(with, before), 1e-4);
    merge_adapters(*model);
    EXPECT_LE(distance(kind_logits(*model), with), 2e-4);
  });
}

// A value of an option that is not its default.
Json other_value(const OptionSpec& spec) {
  switch (spec.type) {
  case OptionType::boolean: return !std::get<bool>(spec.default_value);
  case OptionType::i64: return std::get<int64_t>(spec.default_value) + 1;
  case OptionType::f64: return (spec.min + std::min(spec.max, spec.min + 1)) / 2;
  case OptionType::str: return spec.choices.empty() ? "q" : spec.choices.back();
  case OptionType::list: return Json::array({"q_proj=2"});
  }
  return nullptr;
}

TEST(AdapterKinds, OptionsOfOthersAreRefused) {
  for_each_kind([](const AdapterKind& kind) {
    const std::vector<OptionSpec> own = kind.options();
    for (const OptionSpec& spec : adapter_kind_options()) {
      if (std::ranges::find(own, spec.key, &OptionSpec::key) != own.end()) continue;
      const bool chooses = std::ranges::any_of(adapter_kinds(), [&](const AdapterKind* other) {
        const bool is_of_type = std::string_view(other->peft.type) == kind.peft.type;
        return other->flag != nullptr && other->flag == spec.key && is_of_type;
      });
      const Options options = options_of(kind, {{spec.key, other_value(spec)}});
      if (chooses) {
        EXPECT_NE(adapter_options("a", options).settings.kind, kind.name);
        continue;
      }
      expect_error(Code::invalid_argument, ("have no option " + spec.key).c_str(),
                   [&] { adapter_options("a", options); });
    }
  });
}

// ---- the gradient of a product ----

using Named = std::map<std::string, Tensor>;

struct ProductCase {
  const AdapterKind& kind;
  Named tensors; // x, w, w.bias and those of the adapter
  AdapterForm form;
};

ProductCase product_case(const AdapterKind& kind, const AdapterModule& module) {
  const int64_t out = 4, in = 6;
  AdapterSettings settings;
  settings.kind = kind.name;
  settings.rank = 2;
  ProductCase made{kind, {}, kind.forms(settings, "toy")->form(module)};
  const auto add = [&](const std::string& name, const Shape& shape, float step) {
    made.tensors[name] = moved_by(Tensor(DType::f32, shape), step);
  };
  add("x", {5, in}, 0.3f), add("w", {out, in}, 0.7f), add("w.bias", {out}, 1.1f);
  float step = 0.2f;
  for (const AdapterTensor& tensor : kind.tensors) {
    if (const auto shape = tensor.shape({made.form, out, in}))
      add("adapter:toy/w" + std::string(tensor.suffix), *shape, step += 0.17f);
  }
  return made;
}

// Returns the loss, the sum of squares of the product, and its gradients.
Named run_product(const ProductCase& of, std::string* dump = nullptr) {
  const auto engine = small_engine();
  const auto graph = std::make_shared<graph::Graph>("toy");
  std::map<std::string, graph::Value> values;
  std::vector<graph::BufferRef> inputs;
  std::vector<graph::Value> wrt;
  for (const auto& [name, tensor] : of.tensors) {
    values[name] = graph->input(name, tensor.dtype(), tensor.shape());
    inputs.push_back(engine->upload(tensor));
    wrt.push_back(values[name]);
  }
  const Linear linear = find_linear(
      [&](const std::string& name) -> NamedParam {
        const auto found = values.find(name);
        return found == values.end() ? NamedParam{} : NamedParam{found->second, 0.8f};
      },
      "w", {{"adapter:toy", &of.kind}});
  const graph::Value y = product(linear, values.at("x"));
  const graph::Value loss = graph::sum(graph::multiply(y, y), {0, 1});
  graph->output("loss", loss);
  const std::vector<graph::Value> gradients = graph::gradients(loss, wrt);
  size_t at = 0;
  for (const auto& [name, tensor] : of.tensors) graph->output("d " + name, gradients[at++]);
  if (dump != nullptr) *dump = graph->dump();
  const auto results = engine->compile(graph)->run(inputs);
  Named made;
  for (size_t i = 0; i < results.size(); ++i) made[graph->outputs()[i].name] = results[i]->read();
  return made;
}

// Central differences of step h: error h^2 and rounding 1e-7 loss / h. Where a kind stops a
// gradient on purpose, as DoRA that of the norms, the differences are right only for what carries
// the scale.
TEST(AdapterKinds, HaveTheGradientsOfDifferences) {
  for_each_kind([](const AdapterKind& kind) {
    for (const AdapterModule& module :
         {AdapterModule{"layers.0.self_attn.q_proj", "q"}, {"layers.0.mlp.down_proj", "down"}}) {
      const ProductCase given = product_case(kind, module);
      std::string dump;
      const Named exact = run_product(given, &dump);
      const bool stops = dump.find("stop_gradient") != std::string::npos;
      int64_t checked = 0;
      for (const auto& [name, tensor] : given.tensors) {
        const AdapterTensor* own = kind.find_tensor(name);
        if (stops && name != "x" && (own == nullptr || !own->has_scale)) continue;
        const Tensor& gradient = exact.at("d " + name);
        for (const int64_t i : {int64_t{0}, tensor.count() / 2, tensor.count() - 1}) {
          double loss[2];
          for (const int side : {0, 1}) {
            ProductCase moved = given;
            Tensor part = tensor.clone();
            part.mutable_as<float>()[static_cast<size_t>(i)] += side == 0 ? -0.01f : 0.01f;
            moved.tensors[name] = part;
            loss[side] = run_product(moved).at("loss").as<float>()[0];
          }
          const double slope = (loss[1] - loss[0]) / 0.02;
          EXPECT_NEAR(gradient.as<float>()[static_cast<size_t>(i)], slope,
                      1e-2 * (0.1 + std::abs(slope)))
              << module.own << ' ' << name << ' ' << i;
        }
        checked += own != nullptr ? 1 : 0;
      }
      EXPECT_GT(checked, 0);
    }
  });
}

} // namespace
} // namespace dllm::model
