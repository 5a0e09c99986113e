#include "train/sinks/sink.h"

#include "base/error.h"
#include "base/log.h"
#include "base/named_table.h"
#include "train/sinks/console_sink.h"
#include "train/sinks/jsonl_sink.h"

namespace dllm::train {

std::unique_ptr<Sink> make_sink(const std::string& kind, const std::string& target,
                                const Options& options) {
  if (kind == "console") return make_console_sink(options.i64("every"));
  if (kind == "jsonl") {
    if (target.empty()) fail(Code::invalid_argument, "sink jsonl needs the path of a file");
    return make_jsonl_sink(target, options.i64("every"), options.boolean("append"));
  }
  fail_unnamed({"sink"}, kind, {"jsonl", "console"});
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
