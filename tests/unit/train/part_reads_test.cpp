// What a process reads of the files of a model and of a checkpoint: the bytes of its part, and the
// numbers that belong there.

#include "base/files.h"
#include "meshes/processes.h"
#include "model/files/quantize.h"
#include "model/files/save.h"
#include "model/model.h"
#include "train/checkpoint/checkpoint.h"
#include "unit/object_server.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <map>

namespace dllm::train {
namespace {

using test::TempFolder;

class CountingContent final : public Content {
public:
  CountingContent(ContentRef content, std::atomic<int64_t>& count)
      : content_(std::move(content)), count_(count) {}
  int64_t size() const override { return content_->size(); }
  Bytes read(int64_t at, int64_t size) const override {
    count_ += size;
    return content_->read(at, size);
  }
  void read_to(int64_t at, int64_t size, void* to) const override {
    count_ += size;
    content_->read_to(at, size, to);
  }

private:
  ContentRef content_;
  std::atomic<int64_t>& count_;
};

// Counts the bytes that are read of a folder or file.
class CountingSource final : public Source {
public:
  explicit CountingSource(const std::string& path) : source_(open_source(path)) {}
  int64_t count() const { return count_; }

  bool has(const std::string& name) const override { return source_->has(name); }
  Bytes open(const std::string& name) const override { return source_->open(name); }
  ContentRef content(const std::string& name) const override {
    return std::make_shared<CountingContent>(source_->content(name), count_);
  }
  std::vector<std::string> names() const override { return source_->names(); }
  std::string describe() const override { return source_->describe(); }

private:
  std::unique_ptr<Source> source_;
  mutable std::atomic<int64_t> count_ = 0;
};

// Sizes of which halves and quarters of a row are more than the gaps that are read over.
Json wide_config(const char* type) {
  Json config = tiny_config();
  config.update({{"model_type", type},
                 {"vocab_size", 64},
                 {"mask_token_id", 63},
                 {"hidden_size", 512},
                 {"num_hidden_layers", 1},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 4},
                 {"head_dim", 512},
                 {"intermediate_size", 2048}});
  return config;
}

Options options_of_mesh_part(const std::string& dtype) {
  Options options(model::model_schema());
  options.set_text("dtype", dtype);
  return options;
}

std::string save_new(const Json& config, const std::string& folder) {
  const auto model = model::new_model(mesh_engine(""), config, Options(model::model_schema()));
  model::save_model(*model, folder, Options(model::save_schema()));
  return folder;
}

std::string gguf_of(const std::string& folder, const std::string& path, const char* format) {
  Options options(model::quantize_schema());
  options.set_text("format", format);
  model::quantize_model(folder, path, options);
  return path;
}

// Of each process at most 1.1 times the bytes that it keeps, and what describes the file.
void expect_reads_of_parts(const std::string& path, const char* mesh) {
  // A GGUF file is opened twice, for the weights and for the tokenizer, and its front read in a
  // window of 256 KiB.
  constexpr int64_t kHeaders = int64_t{600} << 10;
  std::atomic<int64_t> all = 0;
  in_processes(mesh, [&](const EngineRef& engine) {
    const CountingSource source(path);
    const auto model = model::load_model(engine, source, options_of_mesh_part("keep"));
    int64_t part = 0;
    for (const auto& entry : model->params().physical())
      part += entry.part.count() * dtype_size(entry.dtype);
    EXPECT_LE(source.count(), part * 11 / 10 + kHeaders)
        << path << ' ' << mesh << " rank " << engine->process() << " keeps " << part << " bytes";
    all += source.count();
  });
  EXPECT_GT(all, int64_t{6} << 20) << "nothing was counted";
}

TEST(PartReads, OfSafetensorsAreTheBytesOfThePart) {
  TempFolder root;
  const std::string folder = save_new(wide_config("qwen3"), root.path("model"));
  for (const char* mesh : {"tensor=2", "fsdp=2", "fsdp=2,tensor=2", "tensor=4"})
    expect_reads_of_parts(folder, mesh);
}

// Of an array in an object store: the part, and for columns what lies between them, since another
// request for each row would take longer.
int64_t fetched_of(const model::ParamStore::Physical& entry) {
  const int64_t rank = entry.part.rank(), unit = dtype_size(entry.dtype);
  const bool is_columns = rank > 1 && entry.part.dim(rank - 1) < entry.shape.dim(rank - 1);
  if (!is_columns) return entry.part.count() * unit;
  return entry.part.count() / entry.part.dim(rank - 1) * entry.shape.dim(rank - 1) * unit;
}

TEST(PartReads, OfObjectsAreTheBytesOfThePart) {
  TempFolder root;
  const std::string folder = save_new(wide_config("qwen3"), root.path("model"));
  test::ObjectServer server;
  for (const std::string& name : list_directory(folder))
    server.put("model/" + name, read_text(join_path(folder, name)));
  const auto wanted =
      weights_of(*model::load_model(mesh_engine(""), folder, Options(model::model_schema())));
  for (const std::string mesh : {"tensor=2", "fsdp=2", "fsdp=2,tensor=2", "tensor=4"}) {
    server.forget_requests();
    std::atomic<int64_t> parts = 0, with_columns = 0;
    std::atomic<bool> has_curl = true;
    in_processes(mesh, [&](const EngineRef& engine) {
      try {
        const auto model =
            model::load_model(engine, "s3://bucket/model", Options(model::model_schema()));
        for (const auto& entry : model->params().physical()) {
          parts += entry.part.count() * dtype_size(entry.dtype);
          with_columns += fetched_of(entry);
        }
        graph::run_on_all(*engine, [] {}); // all have loaded
        graph::run_on_first(*engine, [&] {
          int64_t bytes = 0;
          for (const test::ObjectRequest& request : server.requests())
            bytes += request.range_bytes();
          std::printf("%s: %.2f MiB of parts, %.2f with what lies between columns, %.2f fetched\n",
                      mesh.c_str(), double(parts) / 0x1p20, double(with_columns) / 0x1p20,
                      double(bytes) / 0x1p20);
          const int64_t windows = engine->mesh().ranks() * (int64_t{2} << 20);
          EXPECT_LE(bytes, with_columns + with_columns / 10 + windows) << mesh;
        });
        for (const auto& [name, numbers] : weights_of(*model))
          EXPECT_EQ(numbers, wanted.at(name)) << mesh << ' ' << name;
      } catch (const Error& error) {
        if (error.text().find("libcurl") == std::string::npos) throw;
        has_curl = false;
      }
    });
    if (!has_curl) GTEST_SKIP() << "this system has no libcurl";
  }
}

TEST(PartReads, OfGgufRowsAreTheBytesOfThePart) {
  TempFolder root;
  const std::string folder = save_new(wide_config("llama"), root.path("model"));
  const std::string blocks = gguf_of(folder, root.path("blocks.gguf"), "q8_0");
  const std::string halves = gguf_of(folder, root.path("halves.gguf"), "bf16");
  for (const char* mesh : {"tensor=2", "tensor=4"}) {
    expect_reads_of_parts(blocks, mesh);
    expect_reads_of_parts(halves, mesh);
  }
}

// Every tensor of a model in processes is that of a model in one.
void expect_same_numbers(const std::string& path, const char* dtype, const char* mesh) {
  const auto wanted =
      weights_of(*model::load_model(mesh_engine(""), path, options_of_mesh_part(dtype)));
  in_processes(mesh, [&](const EngineRef& engine) {
    const auto model = model::load_model(engine, path, options_of_mesh_part(dtype));
    for (const auto& [name, numbers] : weights_of(*model)) // reads are made together
      EXPECT_EQ(numbers, wanted.at(name)) << path << ' ' << dtype << ' ' << mesh << ' ' << name;
  });
}

// Matrices that are turned (GPT-2), rows in pairs (llama in GGUF), experts, scales of whole rows,
// blocks.
TEST(PartReads, HaveTheNumbersOfWholeArrays) {
  TempFolder root;
  Json config = tiny_config(false);
  config.update({{"vocab_size", 64},
                 {"hidden_size", 128},
                 {"num_hidden_layers", 3},
                 {"num_key_value_heads", 4},
                 {"head_dim", 32},
                 {"intermediate_size", 256}});
  const std::string plain = save_new(config, root.path("plain"));
  for (const char* mesh : {"tensor=2", "fsdp=2,tensor=2", "fsdp=4"}) {
    for (const char* dtype : {"f32", "bf16", "int8", "q8_0"})
      expect_same_numbers(plain, dtype, mesh);
  }
  Json experts = config;
  experts.update({{"model_type", "qwen3_moe"},
                  {"num_experts", 4},
                  {"num_experts_per_tok", 2},
                  {"norm_topk_prob", true},
                  {"decoder_sparse_step", 1},
                  {"moe_intermediate_size", 32}});
  const std::string mixed = save_new(experts, root.path("experts"));
  for (const char* mesh : {"expert=2", "fsdp=2,expert=2", "tensor=2,expert=2"})
    expect_same_numbers(mixed, "f32", mesh);

  Json pairs = config;
  pairs["model_type"] = "llama";
  const std::string llama = save_new(pairs, root.path("llama"));
  for (const char* format : {"q8_0", "bf16", "f32"}) {
    const std::string path = gguf_of(llama, root.path(std::string(format) + ".gguf"), format);
    for (const char* dtype : {"keep", "f32", "int8"}) {
      for (const char* mesh : {"tensor=2", "fsdp=2,tensor=2", "fsdp=4"})
        expect_same_numbers(path, dtype, mesh);
    }
  }
  const Json turned = {{"model_type", "gpt2"}, {"vocab_size", 64},   {"n_embd", 32},
                       {"n_layer", 2},         {"n_head", 4},        {"n_positions", 32},
                       {"n_inner", 64},        {"mask_token_id", 63}};
  const std::string gpt2 = save_new(turned, root.path("gpt2"));
  for (const char* mesh : {"tensor=2", "fsdp=4"}) expect_same_numbers(gpt2, "f32", mesh);
}

// First values do not depend on the mesh.
TEST(PartReads, NewModelsHaveTheNumbersOfOneRank) {
  const auto made = [](const EngineRef& engine) {
    return weights_of(*model::new_model(engine, tiny_config(), Options(model::model_schema())));
  };
  const auto wanted = made(mesh_engine(""));
  for (const char* mesh : {"tensor=2", "fsdp=2,tensor=2"})
    in_processes(mesh, [&](const EngineRef& engine) { EXPECT_EQ(made(engine), wanted) << mesh; });
}

// Bytes that this process has read by system calls; -1 where the system does not count them.
int64_t bytes_read() {
  std::ifstream io("/proc/self/io");
  std::string word;
  int64_t count = -1;
  while (io >> word) {
    if (word == "rchar:") io >> count;
  }
  return count;
}

// Four ranks together read a checkpoint twice: for its checksums, and for its numbers.
TEST(PartReads, OfACheckpointAreThePartsOfItsArrays) {
  if (bytes_read() < 0) GTEST_SKIP() << "no /proc/self/io";
  TempFolder root;
  Json config = wide_config("qwen3");
  config["head_dim"] = 128;
  const auto trainer_of = [&](const EngineRef& engine) {
    return std::make_unique<Trainer>(
        model::new_model(engine, config, Options(model::model_schema())),
        noise::make_objective("mdlm"), trainer_options());
  };
  std::string dir;
  in_processes("fsdp=2,tensor=2", [&](const EngineRef& engine) {
    const auto trainer = trainer_of(engine);
    TextSource source(4);
    losses_of(*trainer, source, 1);
    const std::string made =
        save_checkpoint(*trainer, &source, root.path(), Options(checkpoint_schema()));
    if (engine->process() == 0) dir = made;
  });
  int64_t files = 0;
  for (const char* below : {"/model", "/state"}) {
    for (const std::string& name : list_directory(dir + below))
      files += file_size(dir + below + "/" + name);
  }
  std::atomic<int64_t> before = 0, after = 0;
  in_processes("fsdp=2,tensor=2", [&](const EngineRef& engine) {
    const auto trainer = trainer_of(engine);
    graph::run_on_first(*engine, [&] { before = bytes_read(); });
    restore_checkpoint(*trainer, nullptr, dir);
    graph::run_on_first(*engine, [&] { after = bytes_read(); });
  });
  EXPECT_GE(after - before, 2 * files * 9 / 10);
  EXPECT_LE(after - before, 2 * files * 11 / 10);
}

} // namespace
} // namespace dllm::train
