#include "train/jsonl_sink.h"

#include "base/error.h"
#include "train/undone_lines.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace dllm::train {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

class JsonlSink final : public Sink {
public:
  JsonlSink(const std::string& path, int64_t every, bool append) : path_(path), every_(every) {
    open(append ? "ae" : "we");
  }

  void rewind(int64_t step) override {
    if (drop_undone_lines(path_, step)) open("ae");
  }

  void write(const Event& event, const Progress&) override {
    if (event.kind() == EventKind::train_step && count_++ % every_ != 0) return;
    const std::string line = event.to_json().dump() + "\n";
    const bool written = std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size();
    if (!written || std::fflush(file_.get()) != 0) {
      fail(Code::resource_exhausted, "cannot write {}: {}", path_, std::strerror(errno));
    }
  }

private:
  void open(const char* mode) {
    file_.reset(std::fopen(path_.c_str(), mode));
    if (file_ == nullptr) {
      fail_with_hint("is there such a folder, and may you write into it?", Code::permission_denied,
                     "cannot write {}: {}", path_, std::strerror(errno));
    }
  }

  std::string path_;
  int64_t every_;
  int64_t count_ = 0;
  std::unique_ptr<std::FILE, CloseFile> file_;
};

} // namespace

std::unique_ptr<Sink> make_jsonl_sink(const std::string& path, int64_t every, bool append) {
  return std::make_unique<JsonlSink>(path, every, append);
}

} // namespace dllm::train
