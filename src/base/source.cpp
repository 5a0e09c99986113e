#include "base/source.h"

#include "base/error.h"
#include "base/files.h"

namespace dllm {
namespace {

class FolderSource final : public Source {
 public:
  explicit FolderSource(std::string folder) : folder_(std::move(folder)) {}

  bool has(const std::string& name) const override { return file_exists(join_path(folder_, name)); }
  Bytes open(const std::string& name) const override { return read_bytes(join_path(folder_, name)); }
  ContentRef content(const std::string& name) const override { return open_content(join_path(folder_, name)); }
  std::vector<std::string> names() const override { return list_directory(folder_); }
  std::string describe() const override { return folder_; }

 private:
  std::string folder_;
};

class FileSource final : public Source {
 public:
  explicit FileSource(std::string path) : path_(std::move(path)) {}

  bool has(const std::string& name) const override { return name == file_name(path_); }
  Bytes open(const std::string& name) const override {
    check_name(name);
    return read_bytes(path_);
  }
  ContentRef content(const std::string& name) const override {
    check_name(name);
    return open_content(path_);
  }
  std::vector<std::string> names() const override { return {file_name(path_)}; }
  std::string describe() const override { return path_; }

 private:
  void check_name(const std::string& name) const {
    if (!has(name)) fail(Code::not_found, "{} is one file, it has no {}", path_, name);
  }

  std::string path_;
};

}  // namespace

std::unique_ptr<Source> open_source(const std::string& path) {
  if (is_directory(path)) return std::make_unique<FolderSource>(path);
  if (!file_exists(path)) fail(Code::not_found, "there is no file or folder {}", path);
  file_stamp(path);  // a pipe or a device is refused by its name, whatever is looked for in it
  return std::make_unique<FileSource>(path);
}

void MemorySource::add(const std::string& name, const void* data, size_t size, bool copy) {
  if (name.empty()) fail(Code::invalid_argument, "a file in a source needs a name");
  if (files_.count(name) != 0) fail(Code::already_exists, "the source already holds {}", name);
  if (!copy) {
    files_[name] = Bytes(data, size, nullptr);
    return;
  }
  auto owner = std::make_shared<std::string>(static_cast<const char*>(data), size);
  files_[name] = Bytes(owner->data(), size, owner);
}

bool MemorySource::has(const std::string& name) const { return files_.count(name) != 0; }

Bytes MemorySource::open(const std::string& name) const {
  const auto found = files_.find(name);
  if (found == files_.end()) fail(Code::not_found, "the source in memory holds no {}", name);
  return found->second;
}

std::vector<std::string> MemorySource::names() const {
  std::vector<std::string> list;
  for (const auto& [name, bytes] : files_) list.push_back(name);
  return list;
}

}  // namespace dllm
