// A LoRA adapter on ranks: each process reads its parts of the matrices, and a cancel of one
// process ends the load of all.

#include "../meshes/processes.h"
#include "base/files.h"
#include "ckpt/safetensors/safetensors_writer.h"
#include "model/adapters/adapter_file.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <vector>

namespace dllm::train {
namespace {

const std::string kLayer = "model.layers.";

std::vector<std::string> adapted_names() {
  std::vector<std::string> names;
  for (const char* layer : {"0", "1"}) {
    for (const char* module : {".self_attn.q_proj", ".self_attn.o_proj"}) {
      for (const char* half : {".lora_A.weight", ".lora_B.weight"})
        names.push_back(kLayer + layer + module + half);
    }
  }
  return names;
}

// Of rank 2 on queries and on what attention gives back, 24 to 24: over tensor one is cut by rows,
// one by columns.
void write_adapter(const test::TempFolder& folder) {
  const Json config = {{"peft_type", "LORA"}, {"r", 2}, {"lora_alpha", 4}, {"bias", "none"}};
  write_file_atomic(folder.path("adapter_config.json"), config.dump());
  std::vector<ckpt::TensorSpec> specs;
  for (const std::string& name : adapted_names()) {
    const Shape shape = name.find("lora_A") == std::string::npos ? Shape{24, 2} : Shape{2, 24};
    specs.push_back({"base_model.model." + name, DType::f32, shape, 0});
  }
  ckpt::SafetensorsWriter writer(folder.path("adapter_model.safetensors"), specs);
  float next = 0;
  for (const ckpt::TensorSpec& spec : writer.order()) {
    std::vector<float> values(static_cast<size_t>(spec.shape.count()));
    for (float& value : values) value = (next += 0.001f);
    writer.write(spec.name, Tensor::from(spec.shape, values));
  }
  writer.close();
}

std::vector<std::vector<float>> adapter_numbers(model::Model& model) {
  std::vector<std::vector<float>> numbers;
  for (const std::string& name : adapted_names()) {
    const Tensor values = model.params().read(name);
    numbers.emplace_back(values.as<float>().begin(), values.as<float>().end());
  }
  return numbers;
}

TEST(AdapterParts, HaveTheNumbersOfWholeMatrices) {
  const test::TempFolder folder;
  write_adapter(folder);
  const auto alone = tiny_model();
  model::load_adapter(*alone, "default", folder.path());
  const auto wanted = adapter_numbers(*alone);
  for (const char* mesh : {"tensor=2", "fsdp=2", "fsdp=2,tensor=2"}) {
    const auto threads = tiny_model(mesh_engine(mesh));
    model::load_adapter(*threads, "default", folder.path());
    EXPECT_EQ(adapter_numbers(*threads), wanted) << mesh;
    in_processes(mesh, [&](const EngineRef& engine) {
      const auto model = tiny_model(engine);
      model::load_adapter(*model, "default", folder.path());
      EXPECT_EQ(adapter_numbers(*model), wanted) << mesh; // reads are made together
    });
  }
}

TEST(AdapterParts, ACancelOfOneProcessEndsTheLoadOfAll) {
  const test::TempFolder folder;
  write_adapter(folder);
  in_processes("tensor=2", [&](const EngineRef& engine) {
    const auto model = tiny_model(engine);
    Task task;
    if (engine->process() == 1) task.cancel_at_check(5);
    const Error error =
        test::error_of([&] { model::load_adapter(*model, "default", folder.path(), &task); });
    EXPECT_EQ(error.code(), Code::cancelled) << engine->process() << ": " << error.text();
    EXPECT_TRUE(model->parts().adapters().empty()) << engine->process();
    model::load_adapter(*model, "default", folder.path());
    EXPECT_FALSE(model->parts().adapters().empty()) << engine->process();
  });
}

} // namespace
} // namespace dllm::train
