#include "text/readers/readers.h"

#include "base/error.h"
#include "text/readers/byte_source.h"
#include "text/readers/text_window.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace dllm::text {

// One maker a format, in its own file.
Reader token_file_reader();
Reader jsonl_reader();
Reader fortunes_reader();
Reader text_reader();

const ReaderTable& record_readers() {
  // In the order of detection; `text` takes what no other format recognizes.
  static const ReaderTable table({
      token_file_reader(),
      jsonl_reader(),
      fortunes_reader(),
      text_reader(),
  });
  return table;
}

std::vector<std::string> ReaderTable::names() const {
  std::vector<std::string> names;
  for (const Reader& reader : readers_) names.push_back(reader.name);
  return names;
}

const Reader& ReaderTable::find(std::string_view name) const {
  const auto found = std::find_if(readers_.begin(), readers_.end(), [&](const Reader& r) { return r.name == name; });
  if (found != readers_.end()) return *found;
  fail_with_hint(fmt::format("the formats are {}", fmt::join(names(), ", ")), Code::not_found, "no format is named {}",
                 name);
}

const Reader& ReaderTable::detect(const std::shared_ptr<const InputFile>& file, const Task* task) const {
  const std::string& path = file->path();
  FileHead seen{is_gzip(*file) ? content_name(path) : path, {}};
  std::string head(static_cast<size_t>(kHeadBytes), '\0');
  head.resize(static_cast<size_t>(open_bytes(file, task)->read(head.data(), kHeadBytes)));
  seen.head = head;
  for (const Reader& reader : readers_) {
    const bool has_ending = std::any_of(reader.endings.begin(), reader.endings.end(),
                                        [&](const std::string& ending) { return seen.name.ends_with(ending); });
    if (has_ending || (reader.recognizes != nullptr && reader.recognizes(seen))) return reader;
  }
  fail_with_hint(fmt::format("choose one with the option format: {}", fmt::join(names(), ", ")), Code::invalid_argument,
                 "{} is of no format that is known", path);
}

OptionSpec format_option(const ReaderTable& readers) {
  std::vector<std::string> choices = readers.names();
  std::reverse(choices.begin(), choices.end()); // the commonest first
  choices.insert(choices.begin(), "detect");
  return option_choice("format", "detect", std::move(choices),
                       "what the files are; detect: by name, index file and first bytes");
}

void give_text(std::string_view text, const RecordSink& sink) {
  if (is_blank(text)) return;
  Record record;
  record.text = text;
  sink(std::move(record));
}

} // namespace dllm::text
