// JSON lines: a row is one object (readers.h); blank lines are passed over.
#include "base/task.h"
#include "text/readers/readers.h"
#include "text/readers/text_window.h"

#include <string>

namespace dllm::text {

namespace {

void read_jsonl(const ReadJob& job, const RecordSink& sink) {
  const RecordKeys keys = record_keys(job.options);
  TextWindow text(open_bytes(job.file, job.task), kMaxRecord);
  std::string where = text.path() + " line ";
  const size_t number_at = where.size();
  while (const auto raw = text.next_line()) {
    const std::string_view line = without_end(*raw);
    if (text.line() % 256 == 0) check_task(job.task);
    if (is_blank(line)) continue;
    where.resize(number_at);
    where += std::to_string(text.line());
    sink(parse_record(line, where, keys));
  }
}

} // namespace

Reader jsonl_reader() {
  return {.name = "jsonl", .endings = {".jsonl", ".ndjson"}, .read = read_jsonl};
}

} // namespace dllm::text
