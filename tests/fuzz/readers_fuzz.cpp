// A file of a stranger into each reader of records: texts, or an Error. Content that gzip
// compressed is decompressed.
#include "base/error.h"
#include "text/data/dataset.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace dllm;
  using namespace dllm::text;
  if (size > 65536) return 0;
  const int file = ::memfd_create("records", 0);
  if (file < 0 || ::write(file, bytes, size) != static_cast<ssize_t>(size)) return 0;
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  // A bomb of 64 KiB makes 64 MiB: the rows of a dataset would take many times that, so they are
  // counted here. A run in a Parquet file may stand for any number of rows.
  constexpr int64_t kMaxRows = 100000;
  const auto read = [&](const char* format, const char* unit) {
    Options options(dataset_schema());
    options.set_str("format", format);
    options.set_str("rows", unit);
    int64_t rows = 0;
    try {
      read_records(path, {options, record_readers()}, [&](const Record&) {
        if (++rows > kMaxRows && std::string_view(format) == "parquet")
          fail(Code::resource_exhausted, "rows enough");
      });
    } catch (const Error&) {
    }
  };
  for (const char* unit : {"file", "paragraph", "line"}) read("text", unit);
  for (const char* format : {"detect", "jsonl", "json", "csv", "fortunes", "parquet"})
    read(format, "file");
  try {
    Options options(dataset_schema());
    options.set_str("format", "tokens");
    Dataset::open(path, nullptr, options, nullptr);
  } catch (const Error&) {
  }
  ::close(file);
  return 0;
}
