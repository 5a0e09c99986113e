// A saved adapter is loaded again with the same numbers, by the rules of PEFT.

#include "base/files.h"
#include "base/log.h"
#include "model/adapters/adapter_file.h"
#include "model/adapters/adapter_save.h"
#include "model/files/quantize.h"
#include "unit/cancel.h"
#include "unit/model/model_tools.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace dllm::model {
namespace {

std::shared_ptr<Model> base_of_three_layers() {
  return new_model(test::small_engine(), test::small_config("llama"), test::model_options());
}

// Gives every matrix numbers of its own.
void fill_adapter(Model& model, const std::string& part) {
  float next = 0.01f;
  for (const std::string& name : model.params().names(part)) {
    Tensor values(DType::f32, model.params().shape(name));
    for (float& x : values.mutable_as<float>()) x = next = next > 0.2f ? -0.2f : next + 0.0173f;
    model.params().write(name, values);
  }
}

Tensor logits_of(Model& model) {
  Batch batch;
  batch.set("ids", Tensor::from(Shape{1, 6}, std::vector<int32_t>{1, 5, 9, 2, 7, 11}));
  return forward(model, batch).at("logits").clone();
}

Json config_in(const std::string& folder) {
  const std::string file = join_path(folder, "adapter_config.json");
  return parse_json(read_text(file), file);
}

AdapterOptions patterned() {
  Options options(adapter_schema());
  options.set_json({{"rank", 4}, {"alpha", 6.0}, {"rslora", true}});
  AdapterOptions made = adapter_options("default", options);
  made.settings.rank_pattern = {{"1.self_attn.q_proj", 2}, {"down_proj", 3}};
  made.settings.alpha_pattern = {{"v_proj", 9.0}};
  return made;
}

AdapterOptions of_layers() {
  Options options(adapter_schema());
  options.set_json({{"rank", 3},
                    {"layers", Json::array({"1-2"})},
                    {"targets", Json::array({"q", "v", "up"})},
                    {"exclude", Json::array({"*.2.mlp.*"})}});
  return adapter_options("default", options);
}

AdapterOptions of_dora() {
  AdapterOptions made = of_layers();
  made.settings.kind = "dora";
  return made;
}

AdapterOptions with_modules() {
  AdapterOptions made = of_layers();
  made.settings.modules_to_save = {"embed_tokens", "lm_head", "norm"};
  return made;
}

TEST(AdapterSave, IsLoadedWithEqualLogits) {
  for (const auto& make : {patterned, of_layers, of_dora, with_modules}) {
    const AdapterOptions options = make();
    SCOPED_TRACE(options.settings.kind);
    const test::TempFolder folder;
    const std::string place = folder.path("adapter");
    const auto model = base_of_three_layers();
    const Tensor before = logits_of(*model);
    add_adapter(*model, options);
    fill_adapter(*model, "adapter:default");
    save_adapter(*model, "default", place);

    const auto other = base_of_three_layers();
    load_adapter(*other, "again", place);
    EXPECT_TRUE(test::same_bytes(logits_of(*other), logits_of(*model)));
    EXPECT_FALSE(test::same_bytes(logits_of(*other), before));
    for (const std::string& name : model->params().names("adapter:default")) {
      const std::string own = split_name(name).second;
      EXPECT_TRUE(test::same_bytes(other->params().read(qualified_name("adapter:again", own)),
                                   model->params().read(name)))
          << own;
    }
    EXPECT_EQ(other->params().names("adapter:again").size(),
              model->params().names("adapter:default").size());
    Json wanted = list_adapters(*model)[0], found = list_adapters(*other)[0];
    wanted.erase("name");
    found.erase("name");
    EXPECT_EQ(found, wanted);
  }
}

TEST(AdapterSave, HasTheKeysOfPeft) {
  const test::TempFolder folder;
  const auto model = base_of_three_layers();
  add_adapter(*model, patterned());
  save_adapter(*model, "default", folder.path("adapter"));
  const Json config = config_in(folder.path("adapter"));
  EXPECT_EQ(config.at("peft_type"), "LORA");
  EXPECT_EQ(config.at("r"), 4);
  EXPECT_EQ(config.at("lora_alpha"), 6.0);
  EXPECT_EQ(config.at("use_rslora"), true);
  EXPECT_EQ(config.at("rank_pattern"), (Json{{"1.self_attn.q_proj", 2}, {"down_proj", 3}}));
  EXPECT_EQ(config.at("alpha_pattern"), (Json{{"v_proj", 9.0}}));
  EXPECT_EQ(config.at("base_model_name_or_path"), Json(nullptr)) << "a new model has no place";
  EXPECT_EQ(list_directory(folder.path("adapter")).size(), 3u);
}

TEST(AdapterSave, DoraWithoutAMagnitudeIsDamaged) {
  const test::TempFolder folder;
  for (const bool is_dora : {true, false}) {
    const auto model = base_of_three_layers();
    add_adapter(*model, is_dora ? of_dora() : of_layers());
    const std::string place = folder.path(is_dora ? "dora" : "lora");
    save_adapter(*model, "default", place);
    Json config = config_in(place);
    EXPECT_EQ(config.at("use_dora"), is_dora);
    config["use_dora"] = !is_dora;
    write_file_atomic(join_path(place, "adapter_config.json"), config.dump());
    const auto other = base_of_three_layers();
    test::expect_error(is_dora ? Code::unimplemented : Code::data_loss, "lora_magnitude_vector",
                       [&] { load_adapter(*other, "again", place); });
    EXPECT_TRUE(other->parts().adapters().empty());
  }
}

TEST(AdapterSave, NamesThePlaceOfItsBase) {
  const test::TempFolder folder;
  save_model(*base_of_three_layers(), folder.path("base"), Options(save_schema()));
  const auto model = load_model(test::small_engine(), folder.path("base"), Options(model_schema()));
  add_adapter(*model, of_layers());
  save_adapter(*model, "default", folder.path("first"));
  EXPECT_TRUE(config_in(folder.path("first"))
                  .at("base_model_name_or_path")
                  .get<std::string>()
                  .ends_with("/base"));
  merge_adapter(*model, "default"); // the base has other numbers than its place
  add_adapter(*model, of_layers());
  save_adapter(*model, "default", folder.path("second"));
  EXPECT_TRUE(config_in(folder.path("second")).at("base_model_name_or_path").is_null());
}

// A base of the hub has its name, so that another machine finds it.
TEST(AdapterSave, NamesABaseOfTheHub) {
  const test::TempFolder folder;
  const std::string cache = folder.path("models--org--na-me"),
                    base = join_path(cache, "snapshots/0123abcd");
  make_directories(join_path(cache, "snapshots"));
  save_model(*base_of_three_layers(), base, Options(save_schema()));
  const auto model = load_model(test::small_engine(), base, Options(model_schema()));
  add_adapter(*model, of_layers());
  save_adapter(*model, "default", folder.path("adapter"));
  const Json config = config_in(folder.path("adapter"));
  EXPECT_EQ(config.at("base_model_name_or_path"), "org/na-me");
  EXPECT_EQ(config.at("revision"), "0123abcd");
  EXPECT_EQ(read_base(folder.path("adapter"))->address, model->origin_of(kBasePart)->address);
}

std::string warnings_of(const std::function<void()>& run) {
  std::string lines;
  log_hook(LogLevel::warn, [&](LogLevel, const std::string& line) { lines += line + '\n'; });
  run();
  log_hook(LogLevel::warn, {});
  return lines;
}

// An adapter over other numbers than those of its run, or over another format of them, is loaded
// with a warning that has both.
TEST(AdapterSave, AnotherBaseIsNamed) {
  const test::TempFolder folder;
  Json config = test::small_config("llama");
  config.update({{"hidden_size", 64}, {"head_dim", 16}, {"intermediate_size", 64}});
  for (const char* seed : {"1", "2"}) {
    const auto model =
        new_model(test::small_engine(), config, test::model_options({{"seed", seed}}));
    save_model(*model, folder.path(std::string("base") + seed), Options(save_schema()));
  }
  Options packed(quantize_schema());
  packed.set_text("format", "nf4");
  quantize_model(folder.path("base1"), folder.path("nf4"), packed);
  save_model(*load_model(test::small_engine(), folder.path("base1"), Options(model_schema())),
             folder.path("copy"), Options(save_schema()));
  const auto load = [&](const std::string& base, const Options& options) {
    return load_model(test::small_engine(), folder.path(base), options);
  };
  const auto trained = load("base1", Options(model_schema()));
  add_adapter(*trained, of_layers());
  const std::string adapter = folder.path("adapter");
  save_adapter(*trained, "default", adapter);

  struct Row {
    const char *base, *dtype, *found; // found: "": there is no warning
  };
  for (const Row& row : {Row{"base1", "auto", ""},
                         {"copy", "auto", ""},
                         {"base1", "bf16", ""},
                         {"base2", "auto", "base2 in f32, digest 2-"},
                         {"nf4", "auto", "nf4 in nf4, digest 2-"},
                         {"base1", "q8_0", "base1 in q8_0, digest 2-"}}) {
    SCOPED_TRACE(row.base);
    const Options options = test::model_options({{"dtype", row.dtype}});
    const auto model = load(row.base, options);
    const std::string
        added = warnings_of([&] { load_adapter(*model, "default", adapter); }),
        as_option = warnings_of([&] {
          load(row.base, test::model_options({{"dtype", row.dtype}, {"adapter", adapter.c_str()}}));
        });
    for (const std::string& lines : {added, as_option}) {
      if (row.found[0] == '\0') {
        EXPECT_EQ(lines, "");
        continue;
      }
      EXPECT_EQ(std::ranges::count(lines, '\n'), 1) << lines;
      EXPECT_NE(lines.find("base1 in f32, digest 2-"), std::string::npos) << lines;
      EXPECT_NE(lines.find(row.found), std::string::npos) << lines;
    }
  }
  Json use = parse_json(read_text(join_path(adapter, kUseFile)), kUseFile);
  use["base"] = 3;
  write_file_atomic(join_path(adapter, kUseFile), use.dump());
  test::expect_error(Code::data_loss, "dllm.json",
                     [&] { load_adapter(*load("base1", Options(model_schema())), "a", adapter); });
  use.erase("base"); // of an older program
  write_file_atomic(join_path(adapter, kUseFile), use.dump());
  const auto other = load("base2", Options(model_schema()));
  EXPECT_EQ(warnings_of([&] { load_adapter(*other, "a", adapter); }), "");
}

TEST(AdapterSave, ReplacesNothing) {
  const test::TempFolder folder;
  const auto model = base_of_three_layers();
  add_adapter(*model, of_layers());
  const std::string place = folder.path("adapter"), partial = place + ".partial";
  save_adapter(*model, "default", place);
  const auto save = [&] { save_adapter(*model, "default", place); };
  test::expect_error(Code::already_exists, "is there already", save);
  test::expect_error(Code::not_found, "no adapter named \"other\"",
                     [&] { save_adapter(*model, "other", folder.path("other")); });

  // A file of someone else in the place that a save fills.
  remove_all(place);
  make_directories(partial);
  write_file_atomic(join_path(partial, "notes.txt"), "mine");
  test::expect_error(Code::already_exists, "no save wrote notes.txt", save);
  EXPECT_EQ(read_text(join_path(partial, "notes.txt")), "mine");
  remove_all(partial);

  // The remains of a save that was killed, at its first file and after its last one.
  make_directories(partial);
  write_file_atomic(join_path(partial, "adapter_config.json.partial"), "");
  write_file_atomic(join_path(partial, "adapter_model.safetensors"), "cut");
  save();
  rename_path(place, partial);
  save();
  EXPECT_FALSE(file_exists(partial));
  // A folder that PEFT wrote is not one of them.
  rename_path(place, partial);
  Json config = config_in(partial);
  config["auto_mapping"] = nullptr;
  write_file_atomic(join_path(partial, "adapter_config.json"), config.dump());
  test::expect_error(Code::already_exists, "no save wrote adapter_config.json", save);
}

TEST(AdapterSave, ACancelledSaveLeavesNothing) {
  const test::TempFolder folder;
  const auto model = base_of_three_layers();
  add_adapter(*model, of_layers());
  Task task;
  task.cancel();
  test::expect_error(Code::cancelled, "",
                     [&] { save_adapter(*model, "default", folder.path("adapter"), &task); });
  EXPECT_TRUE(list_directory(folder.path()).empty());
}

// A copy of a module changes nothing before it is written. It is read in its place, and a merge
// writes it into the base.
TEST(AdapterSave, CopiesOfModulesStandForTheBase) {
  const auto model = base_of_three_layers();
  const Tensor plain = logits_of(*model);
  add_adapter(*model, with_modules());
  EXPECT_TRUE(test::same_bytes(logits_of(*model), plain));
  const Json listed = list_adapters(*model)[0];
  EXPECT_EQ(listed["modules_to_save"].size(), 3u + 2 * 3); // norms of three layers
  fill_adapter(*model, "adapter:default");
  const Tensor changed = logits_of(*model);
  EXPECT_FALSE(test::same_bytes(changed, plain));
  set_adapter_scale(*model, "default", 0);
  EXPECT_TRUE(test::same_bytes(logits_of(*model), plain));
  const Error error = test::error_of([&] { set_adapter_scale(*model, "default", 0.5); });
  EXPECT_NE(error.text().find("its own lm_head"), std::string::npos) << error.text();
  set_adapter_scale(*model, "default", 1);
  EXPECT_TRUE(test::same_bytes(logits_of(*model), changed));
  add_adapter(*model, [] {
    AdapterOptions second = with_modules();
    second.name = "second";
    return second;
  }());
  EXPECT_EQ(test::error_of([&] { logits_of(*model); }).code(), Code::failed_precondition);
  remove_adapter(*model, "second");
  merge_adapter(*model, "default");
  const Tensor merged = logits_of(*model);
  for (size_t i = 0; i < merged.as<float>().size(); ++i)
    EXPECT_NEAR(merged.as<float>()[i], changed.as<float>()[i], 1e-4f);
}

TEST(AdapterSave, ModulesToSaveAreChecked) {
  const auto fails = [](const Json& config, std::vector<std::string> words, Code code) {
    const auto model = new_model(test::small_engine(), config, test::model_options());
    AdapterOptions options = of_layers();
    options.settings.modules_to_save = std::move(words);
    EXPECT_EQ(test::error_of([&] { add_adapter(*model, options); }).code(), code);
    EXPECT_TRUE(list_adapters(*model).empty());
  };
  Json tied = test::small_config("llama");
  tied["tie_word_embeddings"] = true;
  fails(test::small_config("llama"), {"no_such"}, Code::not_found);
  fails(tied, {"no_such"}, Code::not_found);
}

} // namespace
} // namespace dllm::model
