#include "train/sinks/sink.h"

#include "base/error.h"
#include "base/log.h"
#include "base/named_table.h"
#include "train/sinks/console_sink.h"
#include "train/sinks/csv_sink.h"
#include "train/sinks/jsonl_sink.h"
#include "train/sinks/tensorboard_sink.h"

namespace dllm::train {

namespace {

struct SinkKind {
  const char* name;
  const char* target; // "": it has none
  std::unique_ptr<Sink> (*make)(const std::string& target, const Options& options);
};

constexpr SinkKind kSinks[] = {
    {"console", "", make_console_sink},
    {"jsonl", "a file", make_jsonl_sink},
    {"csv", "a file", make_csv_sink},
    {"tensorboard", "a folder", make_tensorboard_sink},
};

} // namespace

std::vector<std::string> sink_names() {
  return names_of(kSinks, &SinkKind::name);
}

std::unique_ptr<Sink> make_sink(const std::string& kind, const std::string& target,
                                const Options& options) {
  const SinkKind& row = need_named(kSinks, kind, &SinkKind::name, {"sink"});
  if (target.empty() && *row.target != '\0')
    fail(Code::invalid_argument, "sink {} needs the path of {}", kind, row.target);
  return row.make(target, options);
}

void rewind_all(const std::vector<std::unique_ptr<Sink>>& sinks, int64_t step) {
  for (const auto& sink : sinks) {
    try {
      sink->rewind(step);
    } catch (const std::exception& error) {
      log(LogLevel::warn, "events after step {} stay in a sink: {}", step, error.what());
    }
  }
}

} // namespace dllm::train
