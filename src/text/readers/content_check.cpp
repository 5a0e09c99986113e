#include "text/readers/content_check.h"

#include "base/error.h"
#include "base/log.h"
#include "text/unicode.h"

namespace dllm::text {

namespace {

constexpr size_t kWarned = 5, kRefused = 30; // percent

// Counts control characters, and bytes that are not UTF-8. A character that is cut at the end of
// the bytes counts too.
size_t count_strange(std::string_view bytes) {
  size_t strange = 0;
  for (size_t at = 0; at < bytes.size();) {
    const size_t good = valid_utf8_end(bytes, at);
    for (; at < good; ++at) {
      const auto byte = static_cast<unsigned char>(bytes[at]);
      if (byte < 9 || (byte > 13 && byte < 32) || byte == 127) ++strange;
    }
    if (at < bytes.size()) {
      ++strange;
      ++at;
    }
  }
  return strange;
}

} // namespace

void check_is_text(std::string_view head, const std::string& path) {
  if (head.empty()) return;
  const size_t percent = 100 * count_strange(head) / head.size();
  const bool has_nul = head.find('\0') != std::string_view::npos;
  if (has_nul || percent >= kRefused) {
    fail_with_hint("name the files to read, or set format to text to read it all the same "
                   "(--dataset.format text); text in another encoding: iconv -t UTF-8",
                   Code::invalid_argument,
                   "{} is not text: {} % of its first bytes are control characters or not UTF-8{}",
                   path, percent, has_nul ? ", and one is NUL" : "");
  }
  if (percent < kWarned) return;
  log(LogLevel::warn,
      "{} does not look like text: {} % of its first bytes are control characters or not UTF-8",
      path, percent);
}

void EncodingCount::add(const Record& record) {
  if (record.starts) ++rows_;
  if (record.kind != Record::Kind::text || last_ == rows_ || is_valid_utf8(record.text)) return;
  if (first_ == 0) first_ = rows_;
  last_ = rows_;
  ++bad_;
}

void EncodingCount::warn() const {
  if (bad_ == 0) return;
  log(LogLevel::warn,
      "{} of {} rows have bytes that are not UTF-8, the first is row {}: they are learned byte by "
      "byte. Text of another encoding: iconv -f WINDOWS-1252 -t UTF-8",
      bad_, rows_, first_);
}

} // namespace dllm::text
