// Files of fortune(6): texts between lines that hold a single "%", with an index NAME.dat next to them (strfile(1)).
#include "base/files.h"
#include "base/task.h"
#include "text/readers/readers.h"
#include "text/readers/text_window.h"

namespace dllm::text {

namespace {

void read_fortunes(const ReadJob& job, const RecordSink& sink) {
  TextWindow text(open_bytes(job.file, job.task), kMaxRecord);
  LineGroup fortune(text, "fortune");
  while (const auto raw = text.next_line()) {
    if (text.line() % 256 == 0) check_task(job.task);
    if (without_end(*raw) == "%")
      give_text(fortune.take(), sink);
    else
      fortune.add(*raw);
  }
  give_text(fortune.take(), sink);
}

} // namespace

Reader fortunes_reader() {
  return {.name = "fortunes",
          .recognizes = [](const FileHead& file) { return file_exists(file.name + ".dat"); },
          .read = read_fortunes};
}

} // namespace dllm::text
