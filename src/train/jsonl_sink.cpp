#include "train/jsonl_sink.h"

#include "base/error.h"
#include "base/files.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace dllm::train {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// Without the lines of later steps, and without a last line that a kill cut.
std::string lines_up_to(const std::string& text, int64_t step) {
  std::string kept;
  for (size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string line = text.substr(at, end - at);
    const Json object = Json::parse(line, nullptr, false);
    const bool undone = object.is_object() && object.contains("step") &&
                        object["step"].is_number_integer() &&
                        object["step"].get<int64_t>() > step;
    if (!undone) kept += line + "\n";
  }
  return kept;
}

class JsonlSink final : public Sink {
public:
  JsonlSink(const std::string& path, int64_t every, bool append) : path_(path), every_(every) {
    open(append ? "ae" : "we");
  }

  // The file is replaced in one step: a kill leaves it as it was or without the undone lines.
  void rewind(int64_t step) override {
    if (!std::filesystem::is_regular_file(path_)) return;
    const std::string all = read_text(path_), kept = lines_up_to(all, step);
    if (kept.size() == all.size()) return;
    file_.reset();
    write_file_atomic(path_, kept);
    open("ae");
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
