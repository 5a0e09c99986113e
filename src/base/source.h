#pragma once
// Where the files of a model or tokenizer come from: a folder, one file, or a host's memory.

#include "base/bytes.h"
#include "base/input_file.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dllm {

class Source {
 public:
  virtual ~Source() = default;
  // True when `name` ("config.json") can be opened.
  virtual bool has(const std::string& name) const = 0;
  // The whole file. Fails with not_found naming the source and the file, with resource_exhausted above 1 GiB.
  virtual Bytes open(const std::string& name) const = 0;
  // The same to read piece by piece, of any size: weights.
  virtual ContentRef content(const std::string& name) const = 0;
  virtual std::vector<std::string> names() const = 0;  // sorted
  virtual std::string describe() const = 0;            // for error texts: the path, or "memory"
};

// A folder, or a single file (then the source holds that one name).
std::unique_ptr<Source> open_source(const std::string& path);

class MemorySource final : public Source {
 public:
  // copy: the bytes are copied; else they must outlive the source. Refuses empty and repeated names.
  void add(const std::string& name, const void* data, size_t size, bool copy);

  bool has(const std::string& name) const override;
  Bytes open(const std::string& name) const override;
  ContentRef content(const std::string& name) const override { return memory_content(open(name)); }
  std::vector<std::string> names() const override;
  std::string describe() const override { return "memory"; }

 private:
  std::map<std::string, Bytes> files_;
};

}  // namespace dllm
