// What threads may do with the parameters of a model: whole versions, turns, lost weights, what
// reading costs.

#include "../model_tools.h"
#include "base/error.h"
#include "unit/counting_engine.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

namespace dllm::model {
namespace {

const std::string kQuery = "model.layers.1.self_attn.q_proj.weight";

std::shared_ptr<Model> small_model(std::shared_ptr<graph::Engine> engine = test::small_engine()) {
  return new_model(std::move(engine), test::small_config("llama"), Options(model_schema()));
}

std::vector<size_t> all_of(const ParamStore& store) {
  std::vector<size_t> indices(store.physical().size());
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = i;
  return indices;
}

// Every buffer with numbers of its own: `value` everywhere.
std::vector<graph::BufferRef> filled(const ParamStore& store, float value) {
  std::vector<graph::BufferRef> made;
  for (const ParamStore::Physical& entry : store.physical()) {
    Tensor numbers(DType::f32, entry.shape);
    for (float& number : numbers.mutable_as<float>()) number = value;
    made.push_back(store.engine().upload(numbers));
  }
  return made;
}

TEST(ParamStoreThreads, AReaderDuringAStepGetsTheWholeNextVersion) {
  const auto model = small_model();
  ParamStore& store = model->params();
  const std::vector<size_t> all = all_of(store);
  const int64_t before = store.version();
  std::vector<graph::BufferRef> taken = store.take(all);
  EXPECT_GT(store.bytes(), 0); // known while a step has the buffers
  Tensor one;
  std::vector<graph::BufferRef> buffers;
  int64_t version = 0;
  std::thread first([&] { one = store.read(kQuery).clone(); });
  std::thread second([&] { buffers = store.snapshot(&version); });
  taken.clear();
  store.put(all, filled(store, 3), true);
  first.join(), second.join();
  EXPECT_EQ(version, before + 1);
  EXPECT_EQ(one.as<float>()[0], 3);
  for (const graph::BufferRef& buffer : buffers) EXPECT_EQ(buffer->read().as<float>()[0], 3);
}

TEST(ParamStoreThreads, AStepThatChangedNothingKeepsTheVersion) {
  const auto model = small_model();
  ParamStore& store = model->params();
  const std::vector<size_t> all = all_of(store);
  const Tensor before = store.read(kQuery).clone();
  const int64_t version = store.version();
  store.put(all, store.take(all), false);
  EXPECT_EQ(store.version(), version);
  EXPECT_TRUE(test::same_bytes(store.read(kQuery), before));
}

TEST(ParamStoreThreads, AReaderThatWaitsCanBeCancelled) {
  const auto model = small_model();
  ParamStore& store = model->params();
  const std::vector<size_t> all = all_of(store);
  std::vector<graph::BufferRef> taken = store.take(all);
  Task task;
  Code code = Code::ok;
  std::thread reader(
      [&] { code = test::error_of([&] { store.snapshot(nullptr, &task); }).code(); });
  task.cancel();
  reader.join();
  EXPECT_EQ(code, Code::cancelled);
  store.put(all, std::move(taken), false);
  store.snapshot(); // the next step does not wait for the reader that left
  store.put(all, store.take(all), false);
}

TEST(ParamStoreThreads, AReaderThatUploadsWhatWasWrittenCanBeCancelled) {
  const auto model = small_model();
  ParamStore& store = model->params();
  Tensor value(DType::f32, store.shape(kQuery));
  for (float& number : value.mutable_as<float>()) number = 7;
  store.write(kQuery, value);
  Task task;
  task.cancel();
  EXPECT_EQ(test::error_of([&] { store.snapshot(nullptr, &task); }).code(), Code::cancelled);
  EXPECT_EQ(test::error_of([&] { store.take(all_of(store), &task); }).code(), Code::cancelled);
  EXPECT_TRUE(test::same_bytes(store.read(kQuery), value)); // the next reader does it
}

TEST(ParamStoreThreads, WritesWaitForAStep) {
  const auto model = small_model();
  ParamStore& store = model->params();
  const std::vector<size_t> all = all_of(store);
  std::vector<graph::BufferRef> taken = store.take(all);
  taken.clear();
  Tensor value(DType::f32, store.shape(kQuery));
  for (float& number : value.mutable_as<float>()) number = 7;
  std::thread writer([&] { store.write(kQuery, value); });
  store.put(all, filled(store, 3), true);
  writer.join();
  EXPECT_TRUE(test::same_bytes(store.read(kQuery), value)); // over what the step left
  EXPECT_EQ(store.read("model.layers.0.self_attn.q_proj.weight").as<float>()[0], 3);
}

TEST(ParamStoreThreads, LostWeightsAreReportedAtOnceEverywhere) {
  const auto model = small_model();
  ParamStore& store = model->params();
  const test::TempFolder folder;
  const std::vector<size_t> all = all_of(store);
  std::vector<graph::BufferRef> taken = store.take(all);
  Code waiting = Code::ok;
  std::thread reader([&] { waiting = test::error_of([&] { store.snapshot(); }).code(); });
  store.lose("the device is lost");
  reader.join();
  EXPECT_EQ(waiting, Code::aborted); // also one that waited
  Batch batch;
  batch.set("ids", Tensor::from(Shape{1, 2}, std::vector<int32_t>{1, 2}));
  const std::vector<std::function<void()>> uses = {
      [&] { store.snapshot(); },
      [&] { store.read(kQuery); },
      [&] { store.write(kQuery, Tensor(DType::f32, store.shape(kQuery))); },
      [&] { store.visit([](const ParamStore::Stack&) {}); },
      [&] { store.take(all); },
      [&] { clone_model(*model); },
      [&] { forward(*model, batch); },
      [&] { save_model(*model, folder.path("saved"), Options(save_schema())); }};
  for (const auto& use : uses) {
    const Error error = test::error_of(use);
    EXPECT_EQ(error.code(), Code::aborted);
    EXPECT_EQ(error.text(), "the model's weights were lost: the device is lost");
    EXPECT_NE(error.hint().find("checkpoint"), std::string::npos);
  }
  EXPECT_EQ(model->describe().at("lost").get<std::string>(), "the device is lost");
  std::vector<std::pair<size_t, graph::BufferRef>> numbers;
  for (const size_t index : all) numbers.emplace_back(index, taken[index]);
  store.restore(std::move(numbers), [] {});
  EXPECT_EQ(store.lost(), "");
  EXPECT_NO_THROW(forward(*model, batch));
}

TEST(ParamStoreCosts, ALoopOverAllNamesReadsAndUploadsEachStackOnce) {
  const auto engine = std::make_shared<test::CountingEngine>(test::small_engine());
  const auto model = small_model(engine);
  ParamStore& store = model->params();
  const auto stacks = static_cast<int64_t>(store.physical().size());
  ASSERT_LT(stacks, static_cast<int64_t>(store.names().size()));
  engine->watch->reads = engine->watch->uploads = 0;
  const int64_t version = store.version();
  float value = 1;
  for (const std::string& name : store.names()) {
    Tensor numbers(DType::f32, store.shape(name));
    for (float& number : numbers.mutable_as<float>()) number = value;
    store.write(name, numbers);
    ++value;
  }
  EXPECT_EQ(store.version(), version + static_cast<int64_t>(store.names().size()));
  store.snapshot();
  EXPECT_EQ(engine->watch->reads, stacks);
  EXPECT_EQ(engine->watch->uploads, stacks);
  value = 1;
  for (const std::string& name : store.names()) EXPECT_EQ(store.read(name).as<float>()[0], value++);
}

TEST(ParamStoreCosts, ALoopOfReadsReadsEachStackTwiceAtMost) {
  const auto engine = std::make_shared<test::CountingEngine>(test::small_engine());
  const auto model = small_model(engine);
  ParamStore& store = model->params();
  engine->watch->reads = 0;
  for (const std::string& name : store.names()) store.read(name);
  const int64_t reads = engine->watch->reads;
  EXPECT_LE(reads, 2 * static_cast<int64_t>(store.physical().size()));
  // What was written in between is read.
  Tensor value(DType::f32, store.shape(kQuery));
  store.read("model.layers.0.self_attn.q_proj.weight");
  store.read(kQuery);
  store.write(kQuery, value);
  EXPECT_TRUE(test::same_bytes(store.read(kQuery), value));
}

TEST(ParamStoreCosts, SavingAndCloningReadEachStackOnce) {
  const auto engine = std::make_shared<test::CountingEngine>(test::small_engine());
  const auto model = small_model(engine);
  const auto stacks = static_cast<int64_t>(model->params().physical().size());
  const test::TempFolder folder;
  engine->watch->reads = 0;
  save_model(*model, folder.path("saved"), Options(save_schema()));
  EXPECT_EQ(engine->watch->reads, stacks);
  engine->watch->reads = 0;
  clone_model(*model);
  EXPECT_EQ(engine->watch->reads, stacks);
}

TEST(ParamStoreCosts, AnInt8StackIsWrittenWithItsScales) {
  Options options(model_schema());
  options.set_str("dtype", "int8");
  const auto model = new_model(test::small_engine(), test::small_config("llama"), options);
  ParamStore& store = model->params();
  Tensor value(DType::f32, store.shape(kQuery));
  for (float& number : value.mutable_as<float>()) number = -2;
  store.write(kQuery, value);
  const Tensor back = store.read(kQuery);
  for (const float number : back.as<float>()) EXPECT_NEAR(number, -2, 0.01);
}

} // namespace
} // namespace dllm::model
