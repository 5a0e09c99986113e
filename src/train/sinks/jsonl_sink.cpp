#include "train/sinks/jsonl_sink.h"

#include "train/sinks/record_file.h"

#include <nlohmann/json.hpp>

#include <memory>
#include <string_view>

namespace dllm::train {
namespace {

bool is_undone(std::string_view line, int64_t step) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object()) return false;
  const auto found = object.find("step");
  return found != object.end() && found->is_number_integer() && found->get<int64_t>() > step;
}

class JsonlSink final : public Sink {
public:
  JsonlSink(const std::string& path, int64_t every, bool append)
      : every_(every), file_("jsonl", path, append) {}

  void rewind(int64_t step) override {
    file_.rewind([step](std::string_view line) { return is_undone(line, step); });
  }
  void write(const Event& event, const Progress&) override {
    if (event.kind() == EventKind::train_step && count_++ % every_ != 0) return;
    file_.write(event.to_json().dump() + "\n");
  }
  void finish() override { file_.finish(); }

private:
  int64_t every_;
  int64_t count_ = 0;
  RecordFile file_;
};

} // namespace

std::unique_ptr<Sink> make_jsonl_sink(const std::string& path, const Options& options) {
  return std::make_unique<JsonlSink>(path, options.i64("every"), options.boolean("append"));
}

} // namespace dllm::train
