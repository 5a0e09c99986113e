#include "hub/choice.h"

#include "base/error.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dllm::hub {
namespace {

using Paths = std::vector<std::string>;

Listing listing_of(const Paths& paths) {
  Listing made;
  made.commit = std::string(40, 'a');
  for (const std::string& path : paths) made.files.push_back({path, 1024, ""});
  return made;
}

Paths paths_of(const std::vector<RemoteFile>& files) {
  Paths paths;
  for (const RemoteFile& file : files) paths.push_back(file.path);
  return paths;
}

Choice choose(const Paths& paths, const std::string& name) {
  return choose_files(listing_of(paths), *parse_name(name));
}

std::string error_of(const Paths& paths, const std::string& name) {
  try {
    choose(paths, name);
  } catch (const Error& error) {
    return error.text();
  }
  return "";
}

TEST(Choice, AModelIsItsDescriptionsAndSafetensors) {
  const Choice made =
      choose({".gitattributes", "README.md", "config.json", "flax_model.msgpack", "model.gguf",
              "model.safetensors", "onnx/model.onnx", "original/consolidated.safetensors",
              "pytorch_model.bin", "tokenizer.json", "tokenizer_config.json"},
             "a/b");
  EXPECT_EQ(paths_of(made.descriptions),
            (Paths{"config.json", "tokenizer.json", "tokenizer_config.json"}));
  EXPECT_EQ(paths_of(made.contents), Paths{"model.safetensors"});
  EXPECT_EQ(made.path, "");
}

TEST(Choice, ShardsOfAnIndex) {
  const Choice made =
      choose({"config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
              "model.safetensors", "model.safetensors.index.json", "other.safetensors"},
             "a/b");
  EXPECT_EQ(paths_of(made.contents),
            (Paths{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}));
  EXPECT_EQ(paths_of(made.descriptions), (Paths{"config.json", "model.safetensors.index.json"}));
}

TEST(Choice, BinOnlyWithoutSafetensors) {
  EXPECT_EQ(paths_of(choose({"config.json", "pytorch_model.bin"}, "a/b").contents),
            Paths{"pytorch_model.bin"});
  EXPECT_EQ(paths_of(choose({"config.json", "pytorch_model-00001-of-00001.bin",
                             "pytorch_model.bin.index.json"},
                            "a/b")
                         .contents),
            Paths{"pytorch_model-00001-of-00001.bin"});
}

TEST(Choice, AnAdapter) {
  const Choice made = choose({"adapter_config.json", "adapter_model.bin",
                              "adapter_model.safetensors", "optimizer.pt", "tokenizer.json"},
                             "a/b");
  EXPECT_EQ(paths_of(made.contents), Paths{"adapter_model.safetensors"});
  EXPECT_EQ(paths_of(made.descriptions), (Paths{"adapter_config.json", "tokenizer.json"}));
}

TEST(Choice, OneGgufFileIsTheModel) {
  const Choice made = choose({"README.md", "m.gguf", "mmproj-m.gguf"}, "a/b");
  EXPECT_EQ(made.path, "m.gguf");
  EXPECT_EQ(paths_of(made.contents), Paths{"m.gguf"});
}

TEST(Choice, SeveralGgufFilesAreListedWithSizes) {
  const std::string text = error_of({"m-Q4_K_M.gguf", "m-Q8_0.gguf"}, "a/b");
  EXPECT_NE(text.find("m-Q4_K_M.gguf (1.0 KiB), m-Q8_0.gguf (1.0 KiB)"), std::string::npos) << text;
}

TEST(Choice, AGgufFileByItsNameAWordAndItsParts) {
  const Paths files = {"m-Q4_K_M.gguf", "m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf"};
  EXPECT_EQ(choose(files, "a/b:m-Q4_K_M.gguf").path, "m-Q4_K_M.gguf");
  EXPECT_EQ(choose(files, "a/b:q4_k_m").path, "m-Q4_K_M.gguf");
  const Choice parts = choose(files, "a/b:Q8_0");
  EXPECT_EQ(parts.path, "m-Q8_0-00001-of-00002.gguf");
  EXPECT_EQ(parts.contents.size(), 2U);
  EXPECT_NE(error_of(files, "a/b:Q5_0").find("has no file Q5_0"), std::string::npos);
  EXPECT_NE(error_of(files, "a/b:m").find("has no file m;"), std::string::npos);
}

TEST(Choice, FilesByPattern) {
  const Choice made = choose({"a.json", "b.json", "c.txt"}, "a/b:*.json");
  EXPECT_EQ(paths_of(made.contents), (Paths{"a.json", "b.json"}));
  EXPECT_EQ(made.path, "");
}

TEST(Choice, ADataSetIsItsRows) {
  const Choice made = choose(
      {".gitattributes", "README.md", "data/train-0.parquet", "x.csv", "x.jsonl.gz", "y.json"},
      "dataset:a/b");
  EXPECT_EQ(paths_of(made.contents),
            (Paths{"data/train-0.parquet", "x.csv", "x.jsonl.gz", "y.json"}));
  EXPECT_EQ(made.path, "");
  EXPECT_EQ(choose({"README.md", "d/a/x.txt", "d/a/y.txt"}, "dataset:a/b").path, "d/a");
  EXPECT_EQ(choose({"d/a/x.txt", "d/ab/y.txt"}, "dataset:a/b").path, "d");
  EXPECT_EQ(choose({"d/x.txt"}, "dataset:a/b").path, "d");
  EXPECT_NE(error_of({"README.md", "dataset_info.json", ".x.json"}, "dataset:a/b").find("no rows"),
            std::string::npos);
}

TEST(Choice, NothingToRead) {
  EXPECT_NE(error_of({}, "a/b").find("no weights"), std::string::npos);
  EXPECT_NE(error_of({"config.json", "model.onnx"}, "a/b").find("no weights"), std::string::npos);
}

} // namespace
} // namespace dllm::hub
