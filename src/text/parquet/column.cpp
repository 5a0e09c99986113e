#include "text/parquet/column.h"

#include "base/error.h"
#include "base/task.h"
#include "text/parquet/codecs.h"
#include "text/parquet/thrift.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace dllm::text::parquet {

// The header of a page.
struct PageHeader {
  int64_t type = -1, size = -1, stored = -1, values = 0, encoding = 0;
  int64_t repetition_encoding = kRle, definition_encoding = kRle; // version 1
  int64_t repetition_bytes = 0, definition_bytes = 0;             // version 2
  bool compressed = true;                                         // version 2
  std::optional<uint32_t> crc;
};

namespace {

constexpr int64_t kDataPage = 0, kDictionaryPage = 2, kDataPageV2 = 3;
constexpr int64_t kHeaderStart = 1 << 10;         // bytes of a header, at first
constexpr int64_t kMaxHeader = int64_t{16} << 20; // it may hold the least and the largest text
constexpr int64_t kReadPiece = int64_t{4} << 20;  // bytes between two checks of the task

int64_t item(ThriftReader& in, const ThriftReader::Field& field, int64_t most = INT32_MAX) {
  return in.integer(field, 0, most);
}

void parse_v1(ThriftReader& in, PageHeader& page) {
  int64_t last = 0;
  while (const auto field = in.field(last)) {
    switch (field->id) {
    case 1: page.values = item(in, *field); break;
    case 2: page.encoding = item(in, *field); break;
    case 3: page.definition_encoding = item(in, *field); break;
    case 4: page.repetition_encoding = item(in, *field); break;
    default: in.skip(*field);
    }
  }
}

void parse_dictionary(ThriftReader& in, PageHeader& page) {
  int64_t last = 0;
  while (const auto field = in.field(last)) {
    switch (field->id) {
    case 1: page.values = item(in, *field); break;
    case 2: page.encoding = item(in, *field); break;
    default: in.skip(*field);
    }
  }
}

void parse_v2(ThriftReader& in, PageHeader& page) {
  int64_t last = 0;
  while (const auto field = in.field(last)) {
    switch (field->id) {
    case 1: page.values = item(in, *field); break;
    case 4: page.encoding = item(in, *field); break;
    case 5: page.definition_bytes = item(in, *field); break;
    case 6: page.repetition_bytes = item(in, *field); break;
    case 7: page.compressed = in.boolean(*field); break;
    default: in.skip(*field);
    }
  }
}

PageHeader parse_header(ThriftReader& in) {
  PageHeader page;
  int64_t last = 0;
  while (const auto field = in.field(last)) {
    switch (field->id) {
    case 1: page.type = item(in, *field); break;
    case 2: page.size = item(in, *field); break;
    case 3: page.stored = item(in, *field); break;
    case 4: page.crc = static_cast<uint32_t>(in.integer(*field, INT32_MIN, INT32_MAX)); break;
    case 5:
      in.structure(*field);
      parse_v1(in, page);
      break;
    case 7:
      in.structure(*field);
      parse_dictionary(in, page);
      break;
    case 8:
      in.structure(*field);
      parse_v2(in, page);
      break;
    default: in.skip(*field);
    }
  }
  return page;
}

// Returns the number of bits of numbers up to `most`.
int width_of(int most) {
  return std::bit_width(static_cast<unsigned>(most));
}

} // namespace

char* ColumnReader::Block::make(size_t size) {
  if (size > capacity) {
    data.reset();
    capacity = 0;
    data = std::make_unique_for_overwrite<char[]>(size);
    capacity = size;
  }
  return data.get();
}

ColumnReader::ColumnReader(const InputFile& file, const Leaf& leaf, const RowGroup& group,
                           const Chunk& chunk, const Task* task, int64_t* at)
    : file_(file), leaf_(leaf), chunk_(chunk),
      where_(fmt::format("{}: column {}, row group {}", file.path(), leaf.path, group.number + 1)),
      task_(task), reported_(at), at_(chunk.begin), end_(chunk.begin + chunk.size),
      left_(chunk.values) {
  check_codec(chunk.codec, where_);
  file_.announce(at_, end_);
}

bool ColumnReader::more() {
  if (loaded_) return true;
  while (page_left_ == 0) {
    if (left_ == 0) return false;
    load_page();
  }
  --page_left_;
  repetition_ = leaf_.max_repetition == 0 ? 0 : static_cast<int>(repetitions_.next(where_));
  definition_ = leaf_.max_definition == 0 ? 0 : static_cast<int>(definitions_.next(where_));
  if (repetition_ > leaf_.max_repetition || definition_ > leaf_.max_definition) {
    fail_with_hint(kCopyHint, Code::data_loss,
                   "{}: levels are {} and {}, expected at most {} and {}", where_, repetition_,
                   definition_, leaf_.max_repetition, leaf_.max_definition);
  }
  loaded_ = true;
  return true;
}

std::optional<std::string_view> ColumnReader::take() {
  loaded_ = false;
  if (definition_ < leaf_.max_definition) return std::nullopt;
  return values_.next(where_);
}

void ColumnReader::load_page() {
  while (true) {
    check_task(task_);
    if (at_ >= end_) {
      fail_with_hint(kCopyHint, Code::data_loss, "{}: {} of {} values have no page", where_, left_,
                     chunk_.values);
    }
    const PageHeader header = read_header();
    const std::string_view body = read_body(header.stored);
    check_crc(header, body);
    if (header.type == kDictionaryPage) begin_dictionary(header, body);
    if (header.type == kDataPage) begin_v1(header, body);
    if (header.type == kDataPageV2) begin_v2(header, body);
    if (header.type != kDataPage && header.type != kDataPageV2) continue; // an index, or a new kind
    page_left_ = header.values;
    left_ -= header.values;
    return;
  }
}

PageHeader ColumnReader::read_header() {
  PageHeader header;
  for (int64_t size = kHeaderStart;; size *= 8) {
    const int64_t available = std::min(size, end_ - at_);
    const Bytes bytes = file_.read(at_, available);
    ThriftReader in(bytes.text(), where_, task_);
    try {
      header = parse_header(in);
      at_ += static_cast<int64_t>(in.at());
      break;
    } catch (const Error&) {
      // Read more of the chunk only when the header is longer than the bytes that were read.
      if (!in.ran_out() || available == end_ - at_ || size >= kMaxHeader) throw;
    }
  }
  if (header.type < 0 || header.size < 0 || header.stored < 0 || header.stored > end_ - at_) {
    fail_with_hint(kCopyHint, Code::data_loss,
                   "{}: a page has {} bytes at byte {}, where {} are left", where_, header.stored,
                   at_, end_ - at_);
  }
  if (header.size > kMaxPage || header.stored > kMaxPage || header.values > kMaxPageValues) {
    fail_with_hint("write the file with smaller pages (data_page_size, write_batch_size)",
                   Code::resource_exhausted,
                   "{}: a page has {} bytes and {} values, expected at most {} and {}", where_,
                   std::max(header.size, header.stored), header.values, kMaxPage, kMaxPageValues);
  }
  const bool has_values = header.type == kDataPage || header.type == kDataPageV2;
  if (has_values && header.values > left_) {
    fail_with_hint(kCopyHint, Code::data_loss, "{}: a page has {} values, where {} are left",
                   where_, header.values, left_);
  }
  return header;
}

std::string_view ColumnReader::read_body(int64_t size) {
  char* to = body_.make(static_cast<size_t>(size));
  for (int64_t done = 0; done < size; done += kReadPiece) {
    check_task(task_);
    file_.read(at_ + done, to + done, std::min(kReadPiece, size - done));
  }
  at_ += size;
  if (reported_ != nullptr) *reported_ = at_;
  return {to, static_cast<size_t>(size)};
}

void ColumnReader::check_crc(const PageHeader& header, std::string_view body) const {
  if (!header.crc) return;
  uLong sum = 0;
  for (size_t at = 0; at < body.size(); at += kReadPiece) {
    check_task(task_);
    const std::string_view piece = body.substr(at, kReadPiece);
    sum = crc32(sum, reinterpret_cast<const Bytef*>(piece.data()), static_cast<uInt>(piece.size()));
  }
  if (static_cast<uint32_t>(sum) == *header.crc) return;
  fail_with_hint(kCopyHint, Code::data_loss,
                 "{}: the checksum of the page that ends at byte {} is wrong", where_, at_);
}

std::string_view ColumnReader::unpack(std::string_view body, int64_t size, Block& to) {
  const auto wanted = static_cast<size_t>(size);
  if (chunk_.codec == kUncompressed || (body.empty() && wanted == 0)) {
    if (body.size() != wanted) {
      fail_with_hint(kCopyHint, Code::data_loss, "{}: a page has {} bytes, expected {}", where_,
                     body.size(), wanted);
    }
    if (&to == &page_) return body; // it stays until the next page
    char* copy = to.make(wanted);
    std::memcpy(copy, body.data(), wanted);
    return {copy, wanted};
  }
  char* made = to.make(wanted);
  decompress(chunk_.codec, body, made, wanted, where_, task_);
  return {made, wanted};
}

void ColumnReader::begin_dictionary(const PageHeader& header, std::string_view body) {
  if (header.encoding != kPlain && header.encoding != kPlainDictionary) {
    fail_with_hint("write the file again", Code::unimplemented,
                   "{}: a dictionary is in encoding {}, which is not read", where_,
                   header.encoding);
  }
  dictionary_.reset();
  dictionary_ =
      read_dictionary(unpack(body, header.size, dictionary_page_), header.values, where_, task_);
}

HybridReader ColumnReader::take_levels(std::string_view& bytes, int most, int64_t encoding) {
  if (most == 0) return {};
  if (encoding != kRle) {
    fail_with_hint("write the file again", Code::unimplemented,
                   "{}: levels are in encoding {}, which is not read", where_, encoding);
  }
  uint32_t size = 0;
  if (bytes.size() >= sizeof size) std::memcpy(&size, bytes.data(), sizeof size);
  if (bytes.size() < sizeof size || size > bytes.size() - sizeof size)
    fail_with_hint(kCopyHint, Code::data_loss, "{}: the levels of a page are cut", where_);
  const HybridReader levels(bytes.substr(sizeof size, size), width_of(most));
  bytes.remove_prefix(sizeof size + size);
  return levels;
}

void ColumnReader::begin_v1(const PageHeader& header, std::string_view body) {
  std::string_view bytes = unpack(body, header.size, page_);
  repetitions_ = take_levels(bytes, leaf_.max_repetition, header.repetition_encoding);
  definitions_ = take_levels(bytes, leaf_.max_definition, header.definition_encoding);
  values_ = TextValues(header.encoding, bytes, dictionary_ ? &*dictionary_ : nullptr, header.values,
                       where_, task_);
}

// In pages of version 2 the levels precede the values and are never compressed.
void ColumnReader::begin_v2(const PageHeader& header, std::string_view body) {
  const int64_t levels = header.repetition_bytes + header.definition_bytes;
  if (levels > std::min<int64_t>(header.size, static_cast<int64_t>(body.size())))
    fail_with_hint(kCopyHint, Code::data_loss, "{}: the levels of a page are cut", where_);
  const auto first = static_cast<size_t>(header.repetition_bytes);
  const auto second = static_cast<size_t>(header.definition_bytes);
  repetitions_ = HybridReader(body.substr(0, first), width_of(leaf_.max_repetition));
  definitions_ = HybridReader(body.substr(first, second), width_of(leaf_.max_definition));
  std::string_view bytes = body.substr(first + second);
  if (header.compressed) bytes = unpack(bytes, header.size - levels, page_);
  values_ = TextValues(header.encoding, bytes, dictionary_ ? &*dictionary_ : nullptr, header.values,
                       where_, task_);
}

} // namespace dllm::text::parquet
