// Checkpoints of models of several parts: each part by value, or by reference to the place that it
// was loaded from.

#include "../tiny.h"
#include "base/files.h"
#include "ckpt/checkpoint/checkpoint_folder.h"
#include "ckpt/model_place.h"
#include "ckpt/weights_on_disk.h"
#include "model/adapters/adapter_file.h"
#include "model/adapters/adapter_save.h"
#include "model/files/quantize.h"
#include "model/files/save.h"
#include "train/checkpoint/checkpoint.h"
#include "unit/test_files.h"
#include "unit/test_tensors.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <functional>

namespace dllm::train {
namespace {

using Make = std::function<std::unique_ptr<Trainer>(const std::string& base)>;

std::string saved_base(const test::TempFolder& folder, const std::string& name, int64_t seed,
                       const char* dtype = "f32") {
  Options options(model::model_schema());
  options.set_i64("seed", seed);
  const auto model = model::new_model(tiny_engine(), tiny_config(false), options);
  const auto path = std::filesystem::path(folder.path(name)).lexically_normal().string();
  Options save(model::save_schema());
  save.set_str("dtype", dtype);
  model::save_model(*model, path, save);
  return path;
}

std::shared_ptr<model::Model> loaded(const std::string& path, const char* dtype = "auto",
                                     const char* attention = "auto") {
  Options options(model::model_schema());
  options.set_str("dtype", dtype);
  options.set_str("attention", attention);
  return model::load_model(tiny_engine(), path, options);
}

std::unique_ptr<Trainer> adapter_trainer(const std::shared_ptr<model::Model>& model,
                                         uint64_t seed = 1) {
  model::add_adapter(*model, {{"*_proj.weight"}, {4, 8}, seed});
  return std::make_unique<Trainer>(model, noise::make_objective("mdlm"),
                                   trainer_options({{"lr", 0.02}, {"ema", 0.9}}));
}

std::string save(Trainer& trainer, const std::string& root) {
  return save_checkpoint(trainer, nullptr, root, Options(checkpoint_schema()));
}

// A base without a mask token, whose vocabulary the trainer has to extend.
std::string saved_causal(const test::TempFolder& folder, const std::string& name, bool tied,
                         const char* dtype) {
  Json config = tiny_config(tied);
  config.erase("mask_token_id");
  const auto model = model::new_model(tiny_engine(), config, Options(model::model_schema()));
  model->set_side_file("chat_template.jinja", Bytes("of the base", 11, nullptr));
  const auto path = std::filesystem::path(folder.path(name)).lexically_normal().string();
  Options save(model::save_schema());
  save.set_str("dtype", dtype);
  model::save_model(*model, path, save);
  return path;
}

// A trainer of an adapter over `base` after some steps, and its checkpoint.
struct SavedRun {
  std::unique_ptr<Trainer> trainer;
  std::string dir;

  SavedRun(const test::TempFolder& folder, const std::string& base, int64_t steps)
      : trainer(adapter_trainer(loaded(base))) {
    TextSource source;
    losses_of(*trainer, source, steps);
    dir = save(*trainer, folder.path("run"));
  }
};

Json parts_of(const std::string& checkpoint) {
  const std::string file = join_path(checkpoint, "trainer.json");
  return parse_json(read_text(file), file).at("parts");
}

Tensor logits_in(model::Model& model) {
  TextSource source(2, 8);
  Options options(model::forward_schema()); // a trainer sets both in its model
  options.set_str("attention", "bidirectional");
  options.set_i64("shift", 0);
  return model::forward(model, *source.next(), options).at("logits").clone();
}

// A run that is cut in two has the losses and the weights of one that is not.
TEST(PartsCheckpoint, AdaptersGoOnOverABaseByReference) {
  const test::TempFolder folder;
  const std::string base = saved_base(folder, "base", 1);
  for (const char* dtype : {"auto", "int8", "q8_0"}) {
    SCOPED_TRACE(dtype);
    const auto whole = adapter_trainer(loaded(base, dtype));
    TextSource source;
    losses_of(*whole, source, 3);
    const std::string dir = save(*whole, folder.path(dtype));
    const std::vector<double> wanted = losses_of(*whole, source, 3);

    EXPECT_FALSE(file_exists(join_path(dir, "model")));
    const Json parts = parts_of(dir);
    EXPECT_EQ(parts[0].at("stored"), "reference");
    EXPECT_EQ(parts[0].at("address"), base);
    EXPECT_EQ(parts[1].at("stored"), "value");

    const auto second = adapter_trainer(loaded(base, dtype), 77); // other first values of A
    restore_checkpoint(*second, nullptr, dir);
    source.seek(3);
    EXPECT_EQ(losses_of(*second, source, 3), wanted);
    EXPECT_EQ(weights_of(*second), weights_of(*whole));
  }
}

// A base without a mask token, whose embedding is the head: the adapter's copy learns the row of
// the mask token, and a run that is cut in two has the bits of one that is not.
TEST(PartsCheckpoint, ACopyOfATiedEmbeddingGoesOn) {
  const test::TempFolder folder;
  const std::string base = saved_causal(folder, "base", true, "f32");
  const auto trainer = [&](uint64_t seed) {
    const auto model = loaded(base);
    model::AdapterOptions adapter{{"*_proj.weight"}, {4, 8}, seed};
    adapter.settings.modules_to_save = {"embed_tokens"};
    model::add_adapter(*model, adapter);
    return std::make_unique<Trainer>(model, noise::make_objective("mdlm"),
                                     trainer_options({{"lr", 0.02}}));
  };
  const auto whole = trainer(1);
  TextSource source;
  losses_of(*whole, source, 3);
  const std::string dir = save(*whole, folder.path("run"));
  const std::vector<double> wanted = losses_of(*whole, source, 3);
  const auto second = trainer(77);
  restore_checkpoint(*second, nullptr, dir);
  source.seek(3);
  EXPECT_EQ(losses_of(*second, source, 3), wanted);
  EXPECT_EQ(weights_of(*second), weights_of(*whole));

  const auto row_of = [](const model::Model& model, const char* name) {
    const Tensor table = model.params().read(name);
    const auto values = table.as<float>();
    return std::vector<float>(values.begin() + 31 * 24, values.end());
  };
  const model::Model& trained = whole->trained_model();
  EXPECT_EQ(trained.params().shape("model.embed_tokens.weight"), (Shape{32, 24}));
  EXPECT_NE(row_of(trained, "adapter:default/model.embed_tokens.weight"),
            row_of(trained, "model.embed_tokens.weight"));
  EXPECT_TRUE(test::same_bytes(logits_in(*loaded(save(*whole, folder.path("last")))),
                               logits_in(*whole->model("live"))));
}

TEST(PartsCheckpoint, AnAdapterByValueIsAnAdapterFolder) {
  const test::TempFolder folder;
  const std::string base = saved_base(folder, "base", 1);
  const SavedRun run(folder, base, 3);
  const std::string& dir = run.dir;
  const std::string adapter = join_path(dir, parts_of(dir)[1].at("folder").get<std::string>());
  const auto opened = loaded(base);
  model::load_adapter(*opened, "default", adapter);
  EXPECT_TRUE(test::same_bytes(logits_in(*opened), logits_in(*run.trainer->model("live"))));
  EXPECT_FALSE(opened->origin_of("adapter:default")); // its run may remove the checkpoint
  const Json config = parse_json(read_text(join_path(adapter, "adapter_config.json")), "config");
  EXPECT_EQ(config.at("base_model_name_or_path"), base);
  EXPECT_EQ(config.at("r"), 4);
  EXPECT_EQ(config.at("target_modules"),
            (Json{"mlp.down_proj", "mlp.gate_proj", "mlp.up_proj", "self_attn.k_proj",
                  "self_attn.o_proj", "self_attn.q_proj", "self_attn.v_proj"}));
}

// A run of an adapter is a model: its path is enough to decode, and to go on.
TEST(PartsCheckpoint, ARunOfAnAdapterIsLoadedByItsPath) {
  const test::TempFolder folder;
  const std::pair<const char*, const char*> kinds[] = {
      {"f32", "auto"}, {"f32", "int8"}, {"f32", "q8_0"}, {"bf16", "auto"}, {"bf16", "f32"}};
  for (const auto& [in_file, dtype] : kinds) {
    const std::string name = std::string(in_file) + dtype;
    SCOPED_TRACE(name);
    const std::string base = saved_base(folder, "base" + name, 1, in_file);
    const auto whole = adapter_trainer(loaded(base, dtype));
    TextSource source;
    losses_of(*whole, source, 3);
    const std::string root = folder.path(name), dir = save(*whole, root);
    for (const std::string& path : {dir, root}) {
      const auto opened = loaded(path);
      EXPECT_TRUE(test::same_bytes(logits_in(*opened), logits_in(*whole->model("live"))));
      EXPECT_EQ(opened->config().attention, whole->trained_model().config().attention);
      EXPECT_EQ(opened->config().mask_token_id, whole->trained_model().config().mask_token_id);
    }
    Trainer second(loaded(root), noise::make_objective("mdlm"),
                   trainer_options({{"lr", 0.02}, {"ema", 0.9}}));
    restore_checkpoint(second, nullptr, dir);
    source.seek(3);
    const std::vector<double> wanted = losses_of(*whole, source, 3);
    source.seek(3);
    EXPECT_EQ(losses_of(second, source, 3), wanted);
  }
}

// The row of a mask token that a run adds to its base is added again. The base stays a reference.
TEST(PartsCheckpoint, ABaseWithoutAMaskTokenIsAReference) {
  const test::TempFolder folder;
  for (const bool tied : {true, false}) {
    for (const auto& [in_file, dtype] : {std::pair("f32", "auto"), std::pair("f32", "q8_0"),
                                         std::pair("bf16", "f32"), std::pair("bf16", "auto")}) {
      const std::string name = std::string(in_file) + dtype + (tied ? "1" : "2");
      SCOPED_TRACE(name);
      const std::string base = saved_causal(folder, "base" + name, tied, in_file);
      const auto model = loaded(base, dtype);
      model->set_side_file("chat_template.jinja", Bytes("of the run", 10, nullptr));
      const auto whole = adapter_trainer(model);
      TextSource source;
      losses_of(*whole, source, 3);
      const std::string root = folder.path(name), dir = save(*whole, root);
      EXPECT_FALSE(file_exists(join_path(dir, "model")));
      EXPECT_EQ(parts_of(dir)[0].at("new_mask"), true);
      EXPECT_EQ(ckpt::tokenizer_folder(dir), join_path(dir, "tokenizer"));

      const auto opened = loaded(root);
      EXPECT_EQ(opened->config().mask_token_id, 31);
      EXPECT_EQ(opened->config().vocab_size, 32);
      EXPECT_TRUE(test::same_bytes(logits_in(*opened), logits_in(*whole->model("live"))));
      ASSERT_EQ(opened->side_files().size(), 1u);
      EXPECT_EQ(opened->side_files()[0].second.text(), "of the run");
      const std::vector<double> wanted = losses_of(*whole, source, 3);
      Trainer second(opened, noise::make_objective("mdlm"),
                     trainer_options({{"lr", 0.02}, {"ema", 0.9}}));
      restore_checkpoint(second, nullptr, dir);
      source.seek(3);
      EXPECT_EQ(losses_of(second, source, 3), wanted);
      const auto third = adapter_trainer(loaded(base, dtype), 77); // from the base, as in C
      restore_checkpoint(*third, nullptr, dir);
      source.seek(3);
      EXPECT_EQ(losses_of(*third, source, 3), wanted);
      // The folder of the adapter says how the run used its base.
      model::save_adapter(*opened, "default", folder.path("adapter" + name));
      Options with_adapter(model::model_schema());
      with_adapter.set_str("dtype", dtype);
      with_adapter.set_str("adapter", folder.path("adapter" + name));
      const auto fourth = model::load_model(tiny_engine(), base, with_adapter);
      EXPECT_EQ(fourth->config().mask_token_id, 31);
      EXPECT_EQ(fourth->config().attention, opened->config().attention);
      EXPECT_EQ(fourth->config().shift, opened->config().shift);
      EXPECT_TRUE(test::same_bytes(logits_in(*fourth), logits_in(*opened)));
      // So does the folder in the checkpoint.
      with_adapter.set_str("adapter",
                           join_path(dir, parts_of(dir)[1].at("folder").get<std::string>()));
      const auto fifth = model::load_model(tiny_engine(), base, with_adapter);
      EXPECT_EQ(fifth->config().mask_token_id, 31);
      EXPECT_TRUE(test::same_bytes(logits_in(*fifth), logits_in(*loaded(root, dtype))));
      EXPECT_EQ(parts_of(save(second, folder.path("again" + name)))[0].at("new_mask"), true);
    }
  }
}

TEST(PartsCheckpoint, AMaskTokenBeyondTheBaseIsRefused) {
  const test::TempFolder folder;
  const std::string base = saved_base(folder, "base", 1);
  const SavedRun run(folder, base, 1);
  const std::string adapter = folder.path("adapter"), file = join_path(adapter, "dllm.json");
  model::save_adapter(run.trainer->trained_model(), "default", adapter);
  Options options(model::model_schema());
  options.set_str("adapter", adapter);
  const auto load = [&] { model::load_model(tiny_engine(), base, options); };
  load();
  Json use = parse_json(read_text(file), file);
  use["config"]["vocab_size"] = 1000;
  use["config"]["mask_token_id"] = 999;
  use["config"]["dllm"]["mask_token_id"] = 999;
  write_file_atomic(file, use.dump());
  test::expect_error(Code::invalid_argument, "mask token 999, and this base has 31 tokens", load);
  for (const char* damaged : {"{", "[]", "{}", R"({"config": 1, "new_mask": 2})"}) {
    write_file_atomic(file, damaged);
    test::expect_error(Code::data_loss, "dllm.json", load);
  }
}

TEST(PartsCheckpoint, ARunWhoseBaseChangedIsNotLoaded) {
  const test::TempFolder folder;
  const std::string base = saved_base(folder, "base", 1);
  const SavedRun run(folder, base, 1);
  const std::string& dir = run.dir;
  std::filesystem::remove_all(base);
  test::expect_error(Code::failed_precondition, "which cannot be read", [&] { loaded(dir); });
  saved_base(folder, "base", 2);
  test::expect_error(Code::failed_precondition, "which holds other numbers now",
                     [&] { loaded(dir); });
}

// An adapter that a run does not train is stored by reference, and compared as the base is.
TEST(PartsCheckpoint, AnAdapterByReferenceIsLoadedFromItsPlace) {
  const test::TempFolder folder;
  const std::string base = saved_base(folder, "base", 1);
  const auto first = adapter_trainer(loaded(base));
  TextSource source;
  losses_of(*first, source, 2);
  const std::string dir = save(*first, folder.path("first")), copy = folder.path("copied");
  std::filesystem::copy(join_path(dir, parts_of(dir)[1].at("folder").get<std::string>()), copy);

  Options options(model::model_schema());
  options.set_str("adapter", copy);
  const auto model = model::load_model(tiny_engine(), base, options);
  model::add_adapter(*model, {{"*q_proj.weight"}, {2, 4}, 5, "second"});
  Trainer second(model, noise::make_objective("mdlm"),
                 trainer_options({{"freeze", {"adapter:default/*"}}}));
  losses_of(second, source, 2);
  const std::string both = save(second, folder.path("second"));
  ASSERT_EQ(parts_of(both)[1].at("stored"), "reference");
  ASSERT_EQ(parts_of(both)[2].at("stored"), "value");
  EXPECT_TRUE(test::same_bytes(logits_in(*loaded(both)), logits_in(*second.model("live"))));
  const Json about = ckpt::WeightsOnDisk(both).describe();
  for (const Json& row : about.at("tensors"))
    EXPECT_TRUE(row.at("name").get<std::string>().starts_with("adapter:second/"));
  test::expect_error(Code::already_exists, "adapter named default",
                     [&] { model::load_model(tiny_engine(), both, options); });
  std::filesystem::remove_all(copy);
  test::expect_error(Code::failed_precondition, "for part adapter:default, which cannot be read",
                     [&] { loaded(both); });
  EXPECT_FALSE(ckpt::WeightsOnDisk(both).describe().at("tensors").empty());
}

TEST(PartsCheckpoint, DescribesItsParts) {
  const test::TempFolder folder;
  const std::string base = saved_base(folder, "base", 1);
  const SavedRun run(folder, base, 1);
  const std::string& dir = run.dir;
  const ckpt::WeightsOnDisk weights(dir);
  const Json about = weights.describe(), &parts = about.at("parts");
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(
      parts[0],
      (Json{{"name", "base"}, {"kind", "network"}, {"stored", "reference"}, {"address", base}}));
  EXPECT_EQ(parts[1].at("name"), "adapter:default");
  EXPECT_EQ(parts[1].at("stored"), "value");
  ASSERT_FALSE(about.at("tensors").empty());
  for (const Json& row : about.at("tensors")) {
    const auto name = row.at("name").get<std::string>();
    EXPECT_TRUE(name.starts_with("adapter:default/base_model.model.")) << name;
    EXPECT_EQ(weights.tensor(name).shape().dims(), row.at("shape"));
  }
  test::expect_error(Code::unimplemented, "has adapters", [&] {
    model::quantize_model(dir, folder.path("small.gguf"), Options(model::quantize_schema()));
  });
}

TEST(PartsCheckpoint, AnotherBaseIsRefusedAndChangesNothing) {
  const test::TempFolder folder;
  const std::string base = saved_base(folder, "base", 1), other = saved_base(folder, "other", 2);
  const auto first = adapter_trainer(loaded(base));
  TextSource source;
  first->step(*source.next());
  const std::string dir = save(*first, folder.path("run"));
  const auto refused = [&](const std::shared_ptr<model::Model>& model, const char* words) {
    const auto trainer = adapter_trainer(model, 5);
    const auto before = weights_of(*trainer);
    test::expect_error(Code::failed_precondition, words,
                       [&] { restore_checkpoint(*trainer, nullptr, dir); });
    EXPECT_EQ(weights_of(*trainer), before);
  };
  refused(loaded(other), "this model has other numbers");
  refused(loaded(base, "int8"), "in other formats than");
  refused(loaded(base, "auto", "causal"), "attention bidirectional, this trainer has causal");
  const auto changed = loaded(base);
  const std::string norm = "model.norm.weight";
  changed->params().write(norm, changed->params().read(norm));
  refused(changed, "this model has other numbers");
  refused(tiny_model(1, false), "this model has other numbers");
  // A copy of the folder is the same base.
  const std::string copy = folder.path("copy");
  model::save_model(*loaded(base), copy, Options(model::save_schema()));
  const auto same = adapter_trainer(loaded(copy), 5);
  restore_checkpoint(*same, nullptr, dir);
  EXPECT_EQ(weights_of(*same), weights_of(*first));
}

// The hint of a base that is gone from the cache of the hub names the command that brings it back.
TEST(PartsCheckpoint, ABaseOfTheHubIsNamed) {
  const test::TempFolder folder;
  make_directories(folder.path("models--org--name/snapshots"));
  const std::string base = saved_base(folder, "models--org--name/snapshots/0123abcd", 1);
  const SavedRun run(folder, base, 1);
  EXPECT_EQ(parts_of(run.dir)[0].at("hub"), "org/name@0123abcd");
  EXPECT_EQ(ckpt::WeightsOnDisk(run.dir).describe().at("parts")[0].at("hub"), "org/name@0123abcd");
  const std::string away = folder.path("away");
  std::filesystem::rename(base, away);
  const Error error = test::error_of([&] { loaded(run.dir); });
  EXPECT_EQ(error.code(), Code::failed_precondition);
  EXPECT_EQ(error.hint(), "dllm pull org/name@0123abcd brings the files back");
  std::filesystem::rename(away, base);
  loaded(run.dir);
}

TEST(PartsCheckpoint, ABaseWithoutAnOriginIsStoredByValue) {
  const test::TempFolder folder;
  const std::string base = saved_base(folder, "base", 1);
  const auto in_memory = [](int64_t seed) {
    Options options(model::model_schema());
    options.set_i64("seed", seed);
    return model::new_model(tiny_engine(), tiny_config(false), options);
  };
  const auto written = loaded(base);
  const std::string norm = "model.norm.weight";
  Tensor twice = written->params().read(norm).clone();
  for (float& value : twice.mutable_as<float>()) value *= 2;
  written->params().write(norm, twice);
  int64_t run = 0;
  for (const auto& model : {in_memory(1), written}) {
    const auto first = adapter_trainer(model);
    TextSource source;
    losses_of(*first, source, 2);
    const std::string dir = save(*first, folder.path("run" + std::to_string(run++)));
    EXPECT_EQ(parts_of(dir)[0].at("folder"), "model");
    const std::vector<double> wanted = losses_of(*first, source, 2);
    const auto second = adapter_trainer(in_memory(2), 5);
    restore_checkpoint(*second, nullptr, dir);
    source.seek(2);
    EXPECT_EQ(losses_of(*second, source, 2), wanted);
    EXPECT_EQ(weights_of(*second), weights_of(*first));
  }
}

// A base in codes without a place is stored by value, as the f32 numbers of its codes. A trainer
// goes on over the same codes, made again from a seed or packed again from the checkpoint. Blocks
// of q4_k are other blocks when they are packed again, and such a base is refused.
TEST(PartsCheckpoint, ABaseOfCodesWithoutAnOriginIsStoredByValue) {
  const test::TempFolder folder;
  for (const char* dtype : {"q8_0", "nf4", "fp4", "int8", "q4_k"}) {
    SCOPED_TRACE(dtype);
    const bool packs_twice = std::string(dtype) != "q4_k";
    const int64_t width = packs_twice ? 64 : 256;
    Json config = tiny_config(false);
    config.update({{"hidden_size", width}, {"head_dim", width / 4}, {"intermediate_size", width}});
    const auto in_memory = [&](int64_t seed) {
      Options options(model::model_schema());
      options.set_i64("seed", seed);
      options.set_str("dtype", dtype);
      return model::new_model(tiny_engine(), config, options);
    };
    const auto first = adapter_trainer(in_memory(1));
    TextSource source;
    losses_of(*first, source, 2);
    const std::string dir = save(*first, folder.path(dtype));
    EXPECT_EQ(parts_of(dir)[0].at("stored"), "value");
    const std::vector<double> wanted = losses_of(*first, source, 2);
    const auto goes_on = [&](Trainer& trainer) {
      restore_checkpoint(trainer, nullptr, dir);
      source.seek(2);
      EXPECT_EQ(losses_of(trainer, source, 2), wanted);
      EXPECT_EQ(weights_of(trainer), weights_of(*first));
    };
    goes_on(*adapter_trainer(in_memory(1), 5));
    Trainer packed(loaded(dir, dtype), noise::make_objective("mdlm"),
                   trainer_options({{"lr", 0.02}, {"ema", 0.9}}));
    const char* differs = "holds other numbers than the checkpoint";
    if (packs_twice)
      goes_on(packed);
    else
      test::expect_error(Code::failed_precondition, differs,
                         [&] { restore_checkpoint(packed, nullptr, dir); });
    const auto other = adapter_trainer(in_memory(2), 5);
    test::expect_error(Code::failed_precondition, differs,
                       [&] { restore_checkpoint(*other, nullptr, dir); });
  }
}

// A reference is kept only while the place holds the numbers, and is likely to hold them later.
TEST(PartsCheckpoint, AnOriginIsThatOfTheNumbers) {
  const test::TempFolder folder;
  const std::string base = saved_base(folder, "base", 1);
  const auto model = loaded(base);
  ASSERT_TRUE(model->origin_of("base"));
  EXPECT_EQ(model->origin_of("base")->address, base);
  EXPECT_FALSE(model::clone_model(*model)->origin_of("base"));

  const auto student = tiny_model(model->engine_ref());
  student->add_network("before", *model);
  Trainer trainer(model, noise::make_objective("mdlm"), trainer_options());
  TextSource source;
  trainer.step(*source.next());
  EXPECT_FALSE(model->origin_of("base"));
  student->add_network("after", *model);
  EXPECT_TRUE(student->origin_of("before"));
  EXPECT_FALSE(student->origin_of("after"));
  student->drop_part("before");
  student->add_network("before", *model);
  EXPECT_FALSE(student->origin_of("before"));

  const std::string run = save(trainer, folder.path("run"));
  EXPECT_FALSE(loaded(run)->origin_of("base"));
  // A file that cannot be read does not keep the model from being loaded.
  ASSERT_EQ(symlink("nowhere", folder.path("base/optimizer.bin").c_str()), 0);
  EXPECT_FALSE(loaded(base)->origin_of("base"));
}

// A teacher is frozen: it comes back with the checkpoint, or is named where it cannot.
TEST(PartsCheckpoint, HoldsEveryNetwork) {
  const test::TempFolder folder;
  const std::string teacher = saved_base(folder, "teacher", 3);
  const auto trainer_with = [](const std::shared_ptr<model::Model>& other) {
    const auto model = tiny_model(other->engine_ref());
    model->add_network("teacher", *other);
    return std::make_unique<Trainer>(model, noise::make_objective("mdlm"), trainer_options());
  };
  const auto first = trainer_with(loaded(teacher));
  TextSource source;
  first->step(*source.next());
  const std::string dir = save(*first, folder.path("run"));
  EXPECT_EQ(parts_of(dir)[0].at("stored"), "value");
  EXPECT_EQ(parts_of(dir)[1].at("stored"), "reference");
  const auto same = trainer_with(loaded(teacher));
  restore_checkpoint(*same, nullptr, dir);
  EXPECT_EQ(weights_of(*same), weights_of(*first));
  test::expect_error(Code::failed_precondition, "part teacher", [&] {
    restore_checkpoint(*trainer_with(loaded(saved_base(folder, "other", 4))), nullptr, dir);
  });
  test::expect_error(Code::failed_precondition, "the parts base, teacher, this trainer has base",
                     [&] { restore_checkpoint(*tiny_trainer(), nullptr, dir); });

  const auto by_value = trainer_with(tiny_model(tiny_engine(), false));
  by_value->step(*source.next());
  const std::string whole = save(*by_value, folder.path("whole"));
  EXPECT_EQ(parts_of(whole)[1].at("stored"), "value");
  const auto other = trainer_with(loaded(teacher));
  restore_checkpoint(*other, nullptr, whole);
  EXPECT_EQ(weights_of(*other), weights_of(*by_value));
}

TEST(PartsCheckpoint, ADamagedListIsNamed) {
  const test::TempFolder folder;
  const auto trainer = tiny_trainer();
  TextSource source;
  trainer->step(*source.next());
  const std::string dir = save(*trainer, folder.path("run"));
  const std::string file = join_path(dir, "trainer.json");
  const Json record = parse_json(read_text(file), file);
  const std::vector<Json> damaged = {
      {{{"name", "base"}, {"stored", "value"}, {"folder", "../model"}}},
      {{{"name", "base"}, {"stored", "value"}}},
      {{{"name", 3}, {"stored", "value"}, {"folder", "model"}}},
      {{{"name", "base"}, {"stored", "reference"}, {"address", "x"}}},
      Json::array({"base"}),
      Json::array({nullptr}),
      5};
  for (const Json& list : damaged) {
    SCOPED_TRACE(list.dump());
    Json changed = record;
    changed["parts"] = list;
    const std::string other = folder.path("other");
    remove_all(other);
    make_directories(other);
    ckpt::CheckpointWriter writer(other, 1);
    for (const char* name : {"model/config.json", "model/model.safetensors",
                             "state/rank_000.safetensors", "state/layout.json"})
      write_file_atomic(writer.path(name), read_text(join_path(dir, name)));
    write_file_atomic(writer.path("trainer.json"), changed.dump(1));
    test::expect_error(Code::data_loss, "trainer.json",
                       [&] { restore_checkpoint(*trainer, nullptr, writer.commit(0)); });
  }
}

} // namespace
} // namespace dllm::train
