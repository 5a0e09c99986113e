#include "hub/cache/snapshot.h"

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace dllm::hub {
namespace {

constexpr int kDeepest = 16; // folders in a folder

void add_files(const std::string& folder, const std::string& prefix, int depth,
               std::vector<RemoteFile>& files) {
  for (const std::string& name : list_directory(folder)) {
    const std::string path = join_path(folder, name);
    if (is_directory(path)) {
      if (depth < kDeepest && !is_link(path))
        add_files(path, prefix + name + "/", depth + 1, files);
    } else if (file_exists(path)) { // false for a link to a blob that was removed
      files.push_back({prefix + name, file_size(path), ""});
    }
  }
}

// Returns true unless a file is a part of a split GGUF file whose other parts are missing.
bool has_parts(const Choice& choice) {
  constexpr std::string_view kCount = "-of-";
  for (const RemoteFile& file : choice.contents) {
    const size_t at = file.path.rfind(kCount);
    if (!file.path.ends_with(".gguf") || at == std::string::npos) continue;
    const std::string count = file.path.substr(at + kCount.size());
    const auto parts = std::strtoul(count.c_str(), nullptr, 10);
    if (parts > choice.contents.size()) return false;
  }
  return true;
}

bool has(const Choice& choice, std::string_view name) {
  const auto is_it = [&](const RemoteFile& file) { return file.path == name; };
  return std::any_of(choice.descriptions.begin(), choice.descriptions.end(), is_it);
}

// Returns true if every shard that an index names is in the choice.
bool has_shards(const std::string& index, const Choice& choice) {
  if (!file_exists(index)) return true;
  const Json json = parse_json(read_text(index), "index of the weights");
  const auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object()) return false;
  return std::all_of(map->begin(), map->end(), [&](const Json& shard) {
    return shard.is_string() &&
           std::any_of(choice.contents.begin(), choice.contents.end(), [&](const RemoteFile& file) {
             return file.path == shard.get_ref<const std::string&>();
           });
  });
}

} // namespace

std::vector<RemoteFile> snapshot_files(const RepoCache& cache, const std::string& commit) {
  std::vector<RemoteFile> files;
  add_files(cache.snapshot(commit), "", 0, files);
  std::sort(files.begin(), files.end(),
            [](const RemoteFile& a, const RemoteFile& b) { return a.path < b.path; });
  return files;
}

bool is_whole(const RepoCache& cache, const std::string& commit, const Choice& choice,
              const Name& name) {
  if (!has_parts(choice)) return false;
  if (name.kind == RepoKind::dataset || !name.file.empty() || !choice.path.empty()) return true;
  if (has(choice, "adapter_config.json")) return true;
  const bool has_tokenizer = has(choice, "tokenizer.json") ||
                             has(choice, "tokenizer_config.json") || has(choice, "vocab.json") ||
                             has(choice, "tokenizer.model") || has(choice, "vocab.txt");
  const char* index = choice.contents.front().path.ends_with(".bin")
                          ? "pytorch_model.bin.index.json"
                          : "model.safetensors.index.json";
  return has(choice, "config.json") && has_tokenizer &&
         has_shards(cache.file(commit, index), choice);
}

} // namespace dllm::hub
