#include "ckpt/safetensors/safetensors.h"

#include "ckpt/safetensors/safetensors_writer.h"
#include "unit/ckpt/safetensors_bytes.h"
#include "unit/test_files.h"

namespace dllm::ckpt {
namespace {

using test::expect_error;

const char* const kOne = R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";

struct Folder {
  MemorySource source;
  void add(const std::string& name, const std::string& text) {
    source.add(name, text.data(), text.size(), true);
  }
};

TEST(WeightFiles, ReadsShardedGoldenFromFolderAndMemory) {
  const std::string folder = test::golden_path("models/torch-qwen3-tiny");
  DLLM_NEEDS_FILE(folder);
  const WeightFiles weights(*open_source(folder));
  EXPECT_EQ(weights.file_count(), 3u);
  MemorySource memory;
  for (const std::string& name : list_directory(folder)) {
    const std::string text = read_text(join_path(folder, name));
    memory.add(name, text.data(), text.size(), true);
  }
  const WeightFiles same(memory);
  ASSERT_EQ(weights.names(), same.names());
  EXPECT_GT(weights.names().size(), 10u);
  for (const std::string& name : weights.names()) {
    const Tensor a = weights.tensor(name), b = same.tensor(name);
    ASSERT_EQ(a.shape(), b.shape()) << name;
    EXPECT_EQ(std::memcmp(a.bytes(), b.bytes(), static_cast<size_t>(a.byte_size())), 0) << name;
  }
}

TEST(WeightFiles, OpensALoneFile) {
  Folder folder;
  folder.add("weights.safetensors", test::safetensors_bytes(kOne, "x"));
  EXPECT_TRUE(WeightFiles(folder.source).has("w"));
  folder.add("more.safetensors", test::safetensors_bytes(kOne, "x"));
  expect_error(Code::not_found, "holds no model.safetensors",
               [&] { WeightFiles files(folder.source); });
}

TEST(WeightFiles, OpensPyTorchFilesWhereThereAreNoSafetensors) {
  const auto torch_bytes = [](const char* name) {
    return read_text(test::data_path(std::string("torch_bin/") + name));
  };
  Folder one;
  one.add("pytorch_model.bin", torch_bytes("module.bin"));
  one.add("training_args.bin", "anything");
  EXPECT_EQ(WeightFiles(one.source).names().size(), 4u);
  one.add("model.safetensors", test::safetensors_bytes(kOne, "x"));
  EXPECT_STREQ(WeightFiles(one.source).format(), "safetensors");

  Folder sharded;
  sharded.add("pytorch_model-00001-of-00002.bin", torch_bytes("module.bin"));
  sharded.add("pytorch_model-00002-of-00002.bin", torch_bytes("types.bin"));
  sharded.add("pytorch_model.bin.index.json", R"({"weight_map":{
      "0.weight":"pytorch_model-00001-of-00002.bin","transposed":"pytorch_model-00002-of-00002.bin"}})");
  const WeightFiles files(sharded.source);
  EXPECT_EQ(files.file_count(), 2u);
  EXPECT_EQ(files.tensor("0.weight").shape(), (Shape{3, 4}));
  EXPECT_EQ(files.tensor("transposed").shape(), (Shape{5, 6}));

  Folder lone;
  lone.add("anything.bin", torch_bytes("types.bin"));
  EXPECT_TRUE(WeightFiles(lone.source).has("bf16"));
}

// A folder that was written twice: which of the two models is meant cannot be known.
TEST(WeightFiles, OneFileNextToShardsOfAnotherModelIsRefused) {
  const std::pair<const char*, std::string> kinds[] = {
      {"model.safetensors", test::safetensors_bytes(kOne, "x")},
      {"pytorch_model.bin", read_text(test::data_path("torch_bin/module.bin"))}};
  for (const auto& kind : kinds) {
    const std::string single = kind.first;
    SCOPED_TRACE(single);
    const auto with_index = [&](const std::string& shard) {
      Folder folder;
      folder.add(single, kind.second);
      folder.add(single + ".index.json", R"({"weight_map":{"w":")" + shard + "\"}}");
      return std::move(folder.source);
    };
    const MemorySource two = with_index("model-00001-of-00002.safetensors"),
                       one = with_index(single);
    expect_error(Code::failed_precondition, single + ".index.json",
                 [&] { WeightFiles files(two); });
    EXPECT_FALSE(WeightFiles(one).names().empty()); // an index of the one file
  }
}

TEST(WeightFiles, RefusesBadIndexes) {
  const auto open = [](const std::string& index, const std::string& shard) {
    Folder folder;
    folder.add("model.safetensors.index.json", index);
    folder.add(shard, test::safetensors_bytes(kOne, "x"));
    WeightFiles files(folder.source);
  };
  open(R"({"weight_map":{"w":"s.safetensors"}})", "s.safetensors");
  for (const char* escape : {"../s.safetensors", "/etc/passwd", "a/../../b", "", "a\\\\b", "."}) {
    expect_error(Code::data_loss, "expected the name of a file of this folder", [&] {
      open(fmt::format(R"({{"weight_map":{{"w":"{}"}}}})", escape), "s.safetensors");
    });
  }
  expect_error(Code::not_found, "names the file t.safetensors, which does not exist",
               [&] { open(R"({"weight_map":{"w":"t.safetensors"}})", "s.safetensors"); });
  expect_error(Code::data_loss, "tensor v should be in s.safetensors",
               [&] { open(R"({"weight_map":{"v":"s.safetensors"}})", "s.safetensors"); });
  expect_error(Code::data_loss, "the key \"w\" twice", [&] {
    open(R"({"weight_map":{"w":"s.safetensors","w":"s.safetensors"}})", "s.safetensors");
  });
  expect_error(Code::data_loss, "weight_map is missing", [&] { open("{}", "s.safetensors"); });
  expect_error(Code::data_loss, "weight_map is missing", [&] { open("[1]", "s.safetensors"); });
}

TEST(WeightFiles, ShardsLieNextToTheirIndex) {
  for (const char* shard : {"../out.safetensors", "sub/out.safetensors", "/etc/out.safetensors"}) {
    Folder folder;
    const std::string index = fmt::format(R"({{"weight_map": {{"w": "{}"}}}})", shard);
    folder.add("model.safetensors.index.json", index);
    folder.add(shard, test::safetensors_bytes(kOne, "x"));
    expect_error(Code::data_loss, "expected the name of a file of this folder",
                 [&] { WeightFiles files(folder.source); });
  }
}

// The cache of Hugging Face is made of links: snapshots/<hash>/model.safetensors ->
// ../../blobs/<hash>.
TEST(WeightFiles, FollowsTheLinksOfAModelFolder) {
  const test::TempFolder folder;
  make_directories(folder.path("blobs"));
  make_directories(folder.path("snapshots/1"));
  write_file_atomic(folder.path("blobs/ab"), test::safetensors_bytes(kOne, "x"));
  ASSERT_EQ(::symlink("../../blobs/ab", folder.path("snapshots/1/model.safetensors").c_str()), 0);
  const WeightFiles files(*open_source(folder.path("snapshots/1")));
  EXPECT_EQ(files.tensor("w").as<uint8_t>()[0], 'x');
}

TEST(WeightFiles, AFileThatShrinksIsAnErrorNotASignal) {
  const test::TempFolder folder;
  const std::string path = folder.path("model.safetensors");
  write_safetensors(path,
                    {{"a", Tensor(DType::f32, {512, 512})}, {"b", Tensor(DType::f32, {512, 512})}});
  const WeightFiles files(*open_source(folder.path()));
  EXPECT_EQ(files.tensor("a").shape(), (Shape{512, 512}));
  ASSERT_EQ(::truncate(path.c_str(), 8192), 0);
  expect_error(Code::data_loss, path + " changed while it was in use", [&] { files.tensor("b"); });
}

} // namespace
} // namespace dllm::ckpt
