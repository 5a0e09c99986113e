#include "model/model.h"

#include "model_tools.h"
#include "unit/cancel.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>

namespace dllm::model {
namespace {

using test::expect_error;
using test::model_options;
using test::small_config;
using test::small_engine;
using test::small_ids;

const char* const kTypes[] = {"llama",      "qwen2",    "qwen3",      "gpt2",     "Dream",
                              "llada",      "nano-dlm", "qwen3_moe",  "dllm_moe", "lladamoe",
                              "llada2_moe", "gemma2",   "gemma3_text"};

std::shared_ptr<Model> make(const std::string& type, const char* seed = "1") {
  return new_model(small_engine(), small_config(type), model_options({{"seed", seed}}));
}

Batch batch_for(const Model& model) {
  Batch batch = small_ids(2, 6, static_cast<int32_t>(model.config().vocab_size));
  if (model.config().time_conditioning)
    batch.set("timesteps", Tensor::from(Shape{2}, std::vector<float>{3, 40}));
  return batch;
}

Tensor logits(Model& model, const Batch& batch) {
  return forward(model, batch).at("logits");
}

TEST(NewModel, SameSeedSameWeights) {
  const auto a = make("llama"), b = make("llama"), c = make("llama", "2");
  for (const std::string& name : a->params().names()) {
    EXPECT_TRUE(test::same_bytes(a->params().read(name), b->params().read(name))) << name;
  }
  const std::string q = "model.layers.1.self_attn.q_proj.weight";
  EXPECT_FALSE(test::same_bytes(a->params().read(q), c->params().read(q)));
  EXPECT_FALSE(test::same_bytes(a->params().read(q),
                                a->params().read("model.layers.0.self_attn.q_proj.weight")));
}

TEST(NewModel, DrawsTheConfigsDeviation) {
  Json config = small_config("gpt2");
  config["initializer_range"] = 0.5;
  config["n_embd"] = 64;
  const auto model = new_model(small_engine(), config, model_options());
  const auto deviation = [&](const std::string& name) {
    const Tensor tensor = model->params().read(name);
    double sum = 0;
    for (const float value : tensor.as<float>()) sum += static_cast<double>(value) * value;
    return std::sqrt(sum / static_cast<double>(tensor.count()));
  };
  EXPECT_NEAR(deviation("transformer.h.0.mlp.c_fc.weight"), 0.5, 0.01);
  EXPECT_NEAR(deviation("transformer.h.0.mlp.c_proj.weight"), 0.5 / std::sqrt(6.0), 0.01);
  EXPECT_EQ(deviation("transformer.h.0.ln_1.weight"), 1.0);
  EXPECT_EQ(deviation("transformer.h.0.ln_1.bias"), 0.0);
}

TEST(SaveModel, LoadsBackBitForBit) {
  for (const char* type : kTypes) {
    const test::TempFolder folder;
    const auto model = make(type);
    Options save(save_schema());
    save.set_i64("max_shard_bytes", 4096);
    save_model(*model, folder.path("m"), save);
    EXPECT_TRUE(file_exists(folder.path("m/model.safetensors.index.json"))) << type;
    const auto back = load_model(small_engine(), folder.path("m"), model_options());
    ASSERT_EQ(back->params().names(), model->params().names()) << type;
    for (const std::string& name : model->params().names()) {
      EXPECT_TRUE(test::same_bytes(back->params().read(name), model->params().read(name)))
          << type << " " << name;
    }
    const Batch batch = batch_for(*model);
    EXPECT_TRUE(test::same_bytes(logits(*model, batch), logits(*back, batch))) << type;
  }
}

// One number that is none, in every form of file and of storage: loading names tensor and place.
TEST(LoadModel, WeightsThatAreNotFiniteAreErrors) {
  const char* name = "model.layers.1.mlp.up_proj.weight"; // (24, 16)
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (const float value :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      const test::TempFolder folder;
      const auto model = make("llama");
      model->params().set_checks(false);
      Tensor tensor = model->params().read(name).clone();
      tensor.mutable_as<float>()[5 * 16 + 3] = value;
      model->params().write(name, tensor);
      Options save(save_schema());
      save.set_text("dtype", dtype);
      save_model(*model, folder.path("m"), save);
      for (const char* form : {"auto", "int8"}) {
        const Error error = test::error_of([&] {
          load_model(small_engine(), folder.path("m"), model_options({{"dtype", form}}));
        });
        EXPECT_EQ(error.code(), Code::data_loss);
        EXPECT_EQ(error.text(), fmt::format("tensor {} holds {} at [5, 3]", name, value));
      }
      const auto loaded =
          load_model(small_engine(), folder.path("m"), model_options({{"check", "off"}}));
      const Tensor seen = loaded->params().read(name).to(DType::f32);
      EXPECT_FALSE(std::isfinite(seen.as<float>()[5 * 16 + 3]));
      EXPECT_FALSE(loaded->params().checks());
    }
  }
}

TEST(ParamStore, WritesOnlyFiniteNumbers) {
  const auto model = make("llama");
  const char* name = "model.norm.weight";
  const Tensor before = model->params().read(name).clone();
  Tensor tensor = before.clone();
  tensor.mutable_as<float>()[7] = std::numeric_limits<float>::infinity();
  expect_error(Code::invalid_argument, "model.norm.weight[7] = inf is not finite",
               [&] { model->params().write(name, tensor); });
  Tensor wide(DType::f64, before.shape());
  wide.mutable_as<double>()[2] = 1e300; // no f32
  expect_error(Code::invalid_argument, "model.norm.weight[2] = 1e+300 is not finite",
               [&] { model->params().write(name, wide); });
  EXPECT_TRUE(test::same_bytes(model->params().read(name), before));
  EXPECT_EQ(model->version(), 1);
}

TEST(SaveModel, NeverHalf) {
  const test::TempFolder folder;
  const auto model = make("llama");
  save_model(*model, folder.path("m"), Options(save_schema()));
  expect_error(Code::already_exists, "is there already",
               [&] { save_model(*model, folder.path("m"), Options(save_schema())); });
  Options over(save_schema());
  over.set_text("overwrite", "true");
  const auto save = [&](Task* task) { save_model(*model, folder.path("m"), over, task); };
  const int64_t checks = test::count_checks(save);
  for (int64_t at = 1; at <= checks; ++at) {
    test::cancel_at(at, save);
    ASSERT_EQ(list_directory(folder.path()), std::vector<std::string>{"m"}) << "check " << at;
  }
  save_model(*model, folder.path("m"), over);
  EXPECT_NO_THROW(load_model(small_engine(), folder.path("m"), model_options()));
}

// A model in a folder of 3 MB and more: one tensor is copied, drawn and packed in several pieces.
Json wide_config() {
  Json config = small_config("qwen3");
  config["vocab_size"] = 6000;
  config["hidden_size"] = 128;
  config["intermediate_size"] = 256;
  return config;
}

TEST(LoadModel, LoadAndNewAreCancelledInsideOfATensor) {
  const test::TempFolder folder;
  const auto make_new = [](Task* task) {
    new_model(small_engine(), wide_config(), model_options(), task);
  };
  save_model(*new_model(small_engine(), wide_config(), model_options()), folder.path("m"),
             Options(save_schema()));
  for (const char* dtype : {"f32", "bf16", "int8"}) {
    const auto load = [&](Task* task) {
      load_model(small_engine(), folder.path("m"), model_options({{"dtype", dtype}}), task);
    };
    const int64_t checks = test::count_checks(load);
    EXPECT_GT(checks, 30) << dtype;
    for (const int64_t at : test::some_of(checks)) test::cancel_at(at, load);
  }
  const int64_t checks = test::count_checks(make_new);
  EXPECT_GE(checks, 6000 * 128 / (1 << 17)); // of the embedding alone
  for (const int64_t at : test::some_of(checks)) test::cancel_at(at, make_new);
}

TEST(SaveModel, ReplacesWhatASaveWroteAndNothingElse) {
  const test::TempFolder folder;
  const auto model = make("llama");
  Options over(save_schema());
  over.set_text("overwrite", "true");
  const auto refuses = [&](const std::string& place, const std::string& named) {
    expect_error(Code::already_exists, named, [&] { save_model(*model, place, over); });
  };
  const std::string place = folder.path("m");
  save_model(*model, place, Options(save_schema()));
  write_file_atomic(place + "/notes.txt", "mine");
  refuses(place, place + " is not replaced: no save wrote notes.txt");
  remove_all(place + "/notes.txt");
  make_directories(place + "/plots");
  refuses(place, "no save wrote plots");
  remove_all(place + "/plots");
  save_model(*model, place, over);
  save_model(*model, place + "/", over);

  // A download of another program: its config has no member "dllm".
  make_directories(folder.path("hub"));
  write_file_atomic(folder.path("hub/config.json"), R"({"model_type": "llama"})");
  write_file_atomic(folder.path("hub/model.safetensors"), "mine");
  refuses(folder.path("hub"), "no save wrote config.json");
  remove_all(folder.path("hub/config.json"));
  refuses(folder.path("hub"), "no save wrote model.safetensors");
  write_file_atomic(folder.path("file"), "mine");
  refuses(folder.path("file"), "it is not a folder");
  ASSERT_EQ(::symlink(place.c_str(), folder.path("link").c_str()), 0);
  refuses(folder.path("link"), "it is a symbolic link");
  // Folders next to it with the names a save uses on its way.
  for (const char* name : {"n.partial", "n.old"}) {
    make_directories(folder.path(name));
    write_file_atomic(folder.path(name) + "/thesis.txt", "mine");
    expect_error(Code::already_exists, "no save wrote thesis.txt",
                 [&] { save_model(*model, folder.path("n"), Options(save_schema())); });
    EXPECT_EQ(read_text(folder.path(name) + "/thesis.txt"), "mine");
    remove_all(folder.path(name));
  }
  EXPECT_EQ(read_text(folder.path("hub/model.safetensors")), "mine");
  EXPECT_NO_THROW(load_model(small_engine(), place, model_options()));
}

// Killed before every change of the disk: the former model stands or the new one, and the next save
// takes the leftovers for what they are.
std::atomic<int> operations_left{-1};
void die_at_zero(const char*, const std::string&) {
  if (operations_left.fetch_sub(1) == 0) ::kill(::getpid(), SIGKILL);
}

TEST(SaveModel, KilledAtEveryOperationLeavesAWholeModel) {
  Options over(save_schema());
  over.set_text("overwrite", "true");
  const auto model = make("llama"), other = make("llama", "2");
  const std::string name = model->params().names().front();
  const Tensor before = model->params().read(name), after = other->params().read(name);
  bool saw_before = false, saw_after = false;
  for (int n = 0;; ++n) {
    const test::TempFolder folder(true);
    const std::string place = folder.path("m");
    save_model(*model, place, over);
    const pid_t child = ::fork();
    if (child == 0) {
      operations_left = n;
      set_file_hook(die_at_zero);
      try {
        save_model(*other, place, over);
      } catch (...) {
        ::_exit(3);
      }
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    const Tensor now = load_model(small_engine(), place, model_options())->params().read(name);
    ASSERT_TRUE(test::same_bytes(now, before) || test::same_bytes(now, after)) << n;
    (test::same_bytes(now, after) ? saw_after : saw_before) = true;
    save_model(*model, place, over);
    EXPECT_EQ(list_directory(folder.path()), std::vector<std::string>{"m"}) << n;
    if (WIFSIGNALED(status)) continue;
    EXPECT_EQ(WEXITSTATUS(status), 0);
    break;
  }
  EXPECT_TRUE(saw_before && saw_after);
}

TEST(Memory, AConfigThatDoesNotFitIsRefusedWithTheSum) {
  // 2^24 rows of 2^20 numbers, and 4096 layers of matrices of 2^20 x 2^20: 2^56 bytes.
  Json huge = small_config("llama");
  huge.update({{"vocab_size", 1 << 24},
               {"hidden_size", 1 << 20},
               {"num_hidden_layers", 4096},
               {"intermediate_size", 1 << 20},
               {"head_dim", 1 << 18}});
  const auto engine = small_engine();
  const Error e = test::error_of([&] { new_model(engine, huge, model_options()); });
  EXPECT_EQ(e.code(), Code::resource_exhausted);
  EXPECT_NE(e.text().find("the model has "), std::string::npos) << e.text();
  EXPECT_NE(e.text().find("TiB (layers."), std::string::npos) << e.text();
  EXPECT_NE(e.text().find("this machine has"), std::string::npos) << e.text();
  EXPECT_EQ(engine->i64("memory_peak"), 0);

  const auto fits = make("llama");
  const test::TempFolder folder;
  save_model(*fits, folder.path("m"), Options(save_schema()));
  engine->set_i64("memory_limit", 4 * fits->params().parameter_count() - 1);
  const auto says_limit = [&](const std::function<void()>& call) {
    expect_error(Code::resource_exhausted, "the engine's memory_limit is", call);
  };
  says_limit([&] { new_model(engine, small_config("llama"), model_options()); });
  says_limit([&] { load_model(engine, folder.path("m"), model_options()); });
  EXPECT_EQ(engine->i64("memory_peak"), 0);
}

TEST(Memory, AListOfBillionsOfExpertsIsNeverMade) {
  Json huge = small_config("qwen3_moe");
  huge.update({{"num_experts", 1 << 20}, {"num_hidden_layers", 4096}, {"decoder_sparse_step", 2}});
  expect_error(Code::invalid_argument, "num_experts is 1048576, expected at most 262144",
               [&] { new_model(small_engine(), huge, model_options()); });
}

TEST(LoadModel, AFileThatShrinksMeanwhileIsAnErrorNotASignal) {
  const test::TempFolder folder;
  const std::string place = folder.path("m"), file = place + "/model.safetensors";
  save_model(*make("llama"), place, Options(save_schema()));
  // A source whose weights are cut when the second of them is read.
  struct Cut final : Content {
    Cut(ContentRef from, std::string to) : content(std::move(from)), path(std::move(to)) {}
    int64_t size() const override { return content->size(); }
    Bytes read(int64_t at, int64_t size) const override {
      // The header is read in two pieces.
      if (++reads == 4) EXPECT_EQ(::truncate(path.c_str(), 4096), 0);
      return content->read(at, size);
    }
    void read_to(int64_t at, int64_t size, void* to) const override {
      const Bytes bytes = read(at, size);
      std::memcpy(to, bytes.data(), bytes.size());
    }
    ContentRef content;
    std::string path;
    mutable int reads = 0;
  };
  struct Cutting final : Source {
    explicit Cutting(const std::string& path) : inner(open_source(path)) {}
    bool has(const std::string& name) const override { return inner->has(name); }
    Bytes open(const std::string& name) const override { return inner->open(name); }
    ContentRef content(const std::string& name) const override {
      return std::make_shared<Cut>(inner->content(name), join_path(inner->describe(), name));
    }
    std::vector<std::string> names() const override { return inner->names(); }
    std::string describe() const override { return inner->describe(); }
    std::unique_ptr<Source> inner;
  };
  const Cutting source(place);
  expect_error(Code::data_loss, file + " changed while it was in use",
               [&] { load_model(small_engine(), source, model_options()); });
}

TEST(LoadModel, Bf16AndInt8AreNear) {
  const test::TempFolder folder;
  const auto model = make("qwen3");
  save_model(*model, folder.path("m"), Options(save_schema()));
  const Tensor want = logits(*model, batch_for(*model));
  for (const char* dtype : {"bf16", "int8"}) {
    const auto small =
        load_model(small_engine(), folder.path("m"), model_options({{"dtype", dtype}}));
    EXPECT_LT(small->params().bytes(), model->params().bytes()) << dtype;
    const Tensor got = logits(*small, batch_for(*small));
    double worst = 0, largest = 0;
    for (size_t i = 0; i < want.as<float>().size(); ++i) {
      worst =
          std::max(worst, static_cast<double>(std::abs(got.as<float>()[i] - want.as<float>()[i])));
      largest = std::max(largest, static_cast<double>(std::abs(want.as<float>()[i])));
    }
    EXPECT_LT(worst, 0.05 * largest) << dtype;
    EXPECT_GT(worst, 0.0) << dtype;
  }
}

TEST(LoadModel, FromMemory) {
  const test::TempFolder folder;
  const auto model = make("gpt2");
  save_model(*model, folder.path("m"), Options(save_schema()));
  MemorySource source;
  for (const char* name : {"config.json", "model.safetensors"}) {
    const Bytes bytes = map_file(folder.path(std::string("m/") + name));
    source.add(name, bytes.data(), bytes.size(), true);
  }
  const auto back = load_model(small_engine(), source, model_options());
  EXPECT_TRUE(test::same_bytes(logits(*model, batch_for(*model)), logits(*back, batch_for(*back))));
}

TEST(LoadModel, NamesWhatDoesNotFit) {
  const test::TempFolder folder;
  const auto model = make("llama");
  save_model(*model, folder.path("m"), Options(save_schema()));
  const auto load_with = [&](const char* key, int64_t value) {
    Json config = parse_json(read_text(folder.path("m/config.json")), "config.json");
    config[key] = value;
    write_file_atomic(folder.path("m/config.json"), config.dump());
    load_model(small_engine(), folder.path("m"), model_options());
  };
  expect_error(
      Code::data_loss,
      "model.safetensors: tensor model.embed_tokens.weight has shape (23, 16), expected (24, 16)",
      [&] { load_with("vocab_size", 24); });
  expect_error(Code::data_loss, "tensor model.layers.3.input_layernorm.weight (16) is missing",
               [&] {
                 load_with("vocab_size", 23);
                 load_with("num_hidden_layers", 4);
               });
  expect_error(Code::data_loss, "model.safetensors: unexpected tensor model.layers.2.",
               [&] { load_with("num_hidden_layers", 2); });
  expect_error(Code::not_found, "no config.json and no .gguf",
               [&] { load_model(small_engine(), folder.path(), model_options()); });
  write_file_atomic(folder.path("pytorch_model.bin"), "x");
  write_file_atomic(folder.path("config.json"), small_config("llama").dump());
  expect_error(Code::unimplemented, "pytorch_model.bin is not a ZIP file; a bare pickle",
               [&] { load_model(small_engine(), folder.path(), model_options()); });
}

TEST(ParamStore, WriteMovesTheVersionAndTheLogits) {
  const auto model = make("qwen2");
  const Batch batch = batch_for(*model);
  const Tensor before = logits(*model, batch);
  const int64_t version = model->version();
  const std::string name = "model.layers.1.mlp.down_proj.weight";
  model->params().write(name, Tensor(DType::f32, model->params().shape(name)));
  EXPECT_EQ(model->version(), version + 1);
  EXPECT_FALSE(test::same_bytes(before, logits(*model, batch)));
  expect_error(Code::invalid_argument, "expected (16, 24)", [&] {
    model->params().write(name, Tensor(DType::f32, {24, 16}));
  });
  const Error unknown =
      test::error_of([&] { model->params().read("model.layers.1.mlp.down_prj.weight"); });
  EXPECT_EQ(unknown.code(), Code::not_found);
  EXPECT_NE(unknown.hint().find("down_proj"), std::string::npos);
}

TEST(ParamStore, MastersAreF32AndTheSameModel) {
  const auto model =
      new_model(small_engine(), small_config("llama"), model_options({{"dtype", "int8"}}));
  const Batch batch = batch_for(*model);
  const Tensor before = logits(*model, batch);
  const size_t entries = model->params().physical().size();
  model->params().make_masters(model->trained());
  EXPECT_LT(model->params().physical().size(), entries);
  for (const ParamStore::Physical& entry : model->params().physical())
    EXPECT_EQ(entry.dtype, DType::f32) << entry.name;
  const Tensor after = logits(*model, batch);
  for (size_t i = 0; i < before.as<float>().size(); ++i)
    EXPECT_NEAR(before.as<float>()[i], after.as<float>()[i], 1e-5);
}

TEST(ParamStore, FreezesWholeStacks) {
  const auto model = make("llama");
  const Selection selection({kBasePart}, {"model.layers.*.mlp.*"});
  EXPECT_TRUE(model->params().borders_of("model.layers.*.mlp.*").empty());
  EXPECT_FALSE(selection.trains(model->params().physical()[model->params().index("layers.gate")]));
  EXPECT_TRUE(selection.trains(model->params().physical()[model->params().index("layers.q")]));
  expect_error(Code::not_found, "no parameter matches",
               [&] { model->params().borders_of("nothing.*"); });
}

TEST(MaskToken, IsAddedAsTheMeanOfTheRows) {
  const auto model = make("llama");
  const Tensor rows = model->params().read("model.embed_tokens.weight");
  model->set_side_file("tokenizer.json", Bytes());
  EXPECT_THROW(model->ensure_mask_token(), Error); // an empty file is no tokenizer
  const auto other = make("llama");
  EXPECT_EQ(other->ensure_mask_token(), 23);
  EXPECT_EQ(other->ensure_mask_token(), 23);
  EXPECT_EQ(other->config().vocab_size, 24);
  const Tensor grown = other->params().read("model.embed_tokens.weight");
  EXPECT_EQ(grown.shape(), (Shape{24, 16}));
  for (int64_t column = 0; column < 16; ++column) {
    double sum = 0;
    for (int64_t row = 0; row < 23; ++row)
      sum += rows.row(row).as<float>()[static_cast<size_t>(column)];
    EXPECT_NEAR(grown.row(23).as<float>()[static_cast<size_t>(column)], sum / 23, 1e-6);
  }
  EXPECT_EQ(forward(*other, small_ids(1, 4, 24)).at("logits").shape(), (Shape{1, 4, 24}));
}

// Heads that are tied, transposed in the file, or kept as int8 grow as well.
TEST(MaskToken, GrowsEveryKindOfTable) {
  for (const auto& [type, dtype] :
       {std::pair{"gpt2", "f32"}, {"nano-dlm", "bf16"}, {"qwen3", "int8"}}) {
    const auto model =
        new_model(small_engine(), small_config(type), model_options({{"dtype", dtype}}));
    EXPECT_EQ(model->ensure_mask_token(), 23) << type;
    const test::TempFolder folder;
    save_model(*model, folder.path("m"), Options(save_schema()));
    const auto back = load_model(small_engine(), folder.path("m"), model_options());
    EXPECT_EQ(back->config().vocab_size, 24) << type;
    EXPECT_EQ(back->config().mask_token_id, 23) << type;
    const Tensor got = logits(*back, batch_for(*back)), want = logits(*model, batch_for(*back));
    ASSERT_EQ(got.shape(), (Shape{2, 6, 24})) << type;
    for (size_t i = 0; i < got.as<float>().size(); ++i) {
      EXPECT_NEAR(got.as<float>()[i], want.as<float>()[i], 1e-5) << type;
    }
  }
}

TEST(MaskToken, UsesAnUnusedRowAndTheTokenizersNames) {
  const auto tokenizer = [](const std::string& text) {
    const auto holder = std::make_shared<const std::string>(text);
    return Bytes(holder->data(), holder->size(), holder);
  };
  const auto model = make("gpt2");
  model->set_side_file(
      "tokenizer.json",
      tokenizer(R"({"model": {"vocab": {"a": 0, "b": 1, "c": 2}}, "added_tokens": []})"));
  EXPECT_EQ(model->ensure_mask_token(), 3);
  EXPECT_EQ(model->config().vocab_size, 23);
  const test::TempFolder folder;
  save_model(*model, folder.path("m"), Options(save_schema()));
  EXPECT_NE(read_text(folder.path("m/tokenizer.json")).find("<|mask|>"), std::string::npos);

  // Found by its text after a load that names no id.
  Json config = parse_json(read_text(folder.path("m/config.json")), "config.json");
  config.erase("mask_token_id");
  config.erase("dllm");
  write_file_atomic(folder.path("m/config.json"), config.dump());
  EXPECT_EQ(load_model(small_engine(), folder.path("m"), model_options())->config().mask_token_id,
            3);
  EXPECT_EQ(load_model(small_engine(), folder.path("m"), model_options({{"mask_token", "7"}}))
                ->config()
                .mask_token_id,
            7);
  expect_error(Code::not_found, "no token [M]", [&] {
    load_model(small_engine(), folder.path("m"), model_options({{"mask_token", "[M]"}}));
  });
  expect_error(Code::out_of_range, "23", [&] {
    load_model(small_engine(), folder.path("m"), model_options({{"mask_token", "23"}}));
  });
}

} // namespace
} // namespace dllm::model
