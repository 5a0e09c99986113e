#include "text/parquet/footer.h"

#include "base/error.h"
#include "base/task.h"
#include "text/parquet/thrift.h"

#include <algorithm>
#include <cstring>

namespace dllm::text::parquet {

namespace {

constexpr int64_t kTail = 8;                      // bytes of the footer's length and the magic
constexpr int64_t kMaxFooter = int64_t{64} << 20; // bytes
constexpr int64_t kMaxColumns = 10000;            // with the groups they are in
constexpr int kMaxGroups = 32;                    // groups in groups
constexpr int64_t kMost = INT64_MAX / 4;          // of rows and bytes: sums of them fit
constexpr int kListType = 9;                      // of Thrift
constexpr int64_t kRequired = 0, kRepeated = 2;   // enum FieldRepetitionType

// One entry of the schema, which lists the tree of columns in depth-first order.
struct Element {
  std::string name;
  int64_t type = -1; // -1: a group
  int64_t repetition = kRequired;
  int64_t children = 0;
};

Element read_element(ThriftReader& in) {
  Element element;
  int64_t last = 0;
  while (const auto field = in.field(last)) {
    switch (field->id) {
    case 1: element.type = in.integer(*field, 0, 7); break;
    case 3: element.repetition = in.integer(*field, kRequired, kRepeated); break;
    case 4: element.name = in.binary(*field); break;
    case 5: element.children = in.integer(*field, 0, kMaxColumns); break;
    default: in.skip(*field);
    }
  }
  return element;
}

// Walks over the entries of a schema, and adds its leaves.
class Tree {
public:
  Tree(ThriftReader& in, int64_t entries, const std::string& where, std::vector<Leaf>& leaves)
      : in_(in), entries_(entries), where_(where), leaves_(leaves) {}

  void read() {
    const Element root = next();
    for (int64_t i = 0; i < root.children; ++i) add(Leaf{}, 0);
    if (entries_ != 0) bad("it has it has entries that no group holds");
  }

private:
  [[noreturn]] void bad(const char* what) {
    fail_with_hint(kCopyHint, Code::data_loss, "{}: the schema is damaged: {}", where_, what);
  }
  Element next() {
    if (entries_-- == 0) bad("a group has fewer columns than it says");
    return read_element(in_);
  }
  void add(Leaf place, int depth) {
    if (depth > kMaxGroups) bad("its groups are nested too deep");
    Element element = next();
    if (depth == 0) place.top = element.name;
    place.group = place.path;
    place.path += (depth == 0 ? "" : ".") + element.name;
    if (place.path.size() > 4096) bad("the name of a column has more than 4096 bytes");
    place.name = std::move(element.name);
    place.max_definition += element.repetition == kRequired ? 0 : 1;
    if (element.repetition == kRepeated) {
      ++place.max_repetition;
      place.item_definition = place.max_definition;
    }
    if (element.type < 0) {
      for (int64_t i = 0; i < element.children; ++i) add(place, depth + 1);
      return;
    }
    place.type = static_cast<Physical>(element.type);
    place.number = static_cast<int>(leaves_.size());
    leaves_.push_back(std::move(place));
  }

  ThriftReader& in_;
  int64_t entries_; // left
  const std::string& where_;
  std::vector<Leaf>& leaves_;
};

// The description of one part of a column.
struct RawChunk {
  bool here = false; // its description is in this file
  bool encrypted = false, elsewhere = false;
  int64_t codec = 0, values = 0, size = 0, data = 0, dictionary = 0;
};

void read_column_data(ThriftReader& in, RawChunk& chunk) {
  chunk.here = true;
  int64_t last = 0;
  while (const auto field = in.field(last)) {
    switch (field->id) {
    case 4: chunk.codec = in.integer(*field, 0, INT32_MAX); break;
    case 5: chunk.values = in.integer(*field, 0, kMost); break;
    case 7: chunk.size = in.integer(*field, 0, kMost); break;
    case 9: chunk.data = in.integer(*field, 0, kMost); break;
    case 11: chunk.dictionary = in.integer(*field, 0, kMost); break;
    default: in.skip(*field);
    }
  }
}

RawChunk read_chunk(ThriftReader& in) {
  RawChunk chunk;
  int64_t last = 0;
  while (const auto field = in.field(last)) {
    if (field->id == 3) {
      in.structure(*field);
      read_column_data(in, chunk);
    } else {
      chunk.elsewhere = chunk.elsewhere || field->id == 1;
      chunk.encrypted = chunk.encrypted || field->id == 8;
      in.skip(*field);
    }
  }
  return chunk;
}

Chunk checked(const RawChunk& raw, const std::string& where, const Leaf& column, int64_t group,
              int64_t data_end) {
  const auto at = fmt::format("{}: column {}, row group {}", where, column.path, group + 1);
  if (raw.encrypted)
    fail_with_hint("write it without encryption", Code::unimplemented, "{} is encrypted", at);
  if (raw.elsewhere)
    fail_with_hint("write the data and its description into one file", Code::unimplemented,
                   "{} is in another file", at);
  if (!raw.here) fail_with_hint(kCopyHint, Code::data_loss, "{} has no description", at);
  // The dictionary, if any, precedes the data; offset 0 means no dictionary.
  const int64_t begin = raw.dictionary > 0 ? std::min(raw.dictionary, raw.data) : raw.data;
  if (begin < static_cast<int64_t>(kMagic.size()) || raw.size > data_end - begin) {
    fail_with_hint(kCopyHint, Code::data_loss,
                   "{} should have {} bytes from byte {} on, but the data end at byte {}", at,
                   raw.size, begin, data_end);
  }
  return {begin, raw.size, raw.values, raw.codec};
}

} // namespace

Footer::Footer(const InputFile& file, const Task* task) : where_(file.path()), task_(task) {
  const int64_t size = file.size();
  const auto magic_size = static_cast<int64_t>(kMagic.size());
  char tail[kTail] = {};
  if (size >= magic_size + kTail) file.read(size - kTail, tail, kTail);
  const std::string_view magic(tail + 4, kMagic.size());
  if (magic == "PARE")
    fail_with_hint("write it without encryption", Code::unimplemented, "{} is encrypted", where_);
  if (magic != kMagic) {
    fail_with_hint(kCopyHint, Code::data_loss, "{} does not end as a Parquet file of {} bytes does",
                   where_, size);
  }
  uint32_t length;
  std::memcpy(&length, tail, sizeof length); // little-endian
  data_end_ = size - kTail - static_cast<int64_t>(length);
  if (data_end_ < magic_size) {
    fail_with_hint(kCopyHint, Code::data_loss, "{}: the footer has {} bytes, but the file has {}",
                   where_, length, size);
  }
  if (length > kMaxFooter) {
    fail_with_hint("write it in fewer and larger row groups, or with fewer columns",
                   Code::resource_exhausted, "{}: the footer has {} bytes, more than {}", where_,
                   length, kMaxFooter);
  }
  bytes_ = file.read(data_end_, static_cast<int64_t>(length));
  ThriftReader in(bytes_.text(), where_, task_);
  int64_t last = 0;
  while (const auto field = in.field(last)) {
    if (field->id == 2) read_schema(in.at());
    if (field->id == 4) groups_at_ = in.at();
    if (field->id == 4) groups_ = ThriftReader(in).list(*field).count;
    in.skip(*field);
  }
}

void Footer::read_schema(size_t at) {
  ThriftReader in(bytes_.text(), where_, task_, at);
  const int64_t entries = in.list({2, kListType}).count;
  if (entries > kMaxColumns) {
    fail_with_hint("write it with fewer columns", Code::resource_exhausted,
                   "{} has {} columns and groups, expected at most {}", where_, entries,
                   kMaxColumns);
  }
  leaves_.clear();
  if (entries > 0) Tree(in, entries, where_, leaves_).read();
}

RowGroup Footer::read_row_group(ThriftReader& in, int64_t number,
                                std::span<const Leaf* const> columns) const {
  RowGroup group;
  group.number = number;
  std::vector<RawChunk> found(columns.size());
  int64_t last = 0;
  while (const auto field = in.field(last)) {
    if (field->id == 3) {
      group.rows = in.integer(*field, 0, kMost);
    } else if (field->id == 1) {
      const ThriftReader::List chunks = in.list(*field);
      if (chunks.count > 0) in.structure(chunks.item);
      for (int64_t i = 0; i < chunks.count; ++i) {
        const auto wanted = std::find_if(columns.begin(), columns.end(),
                                         [&](const Leaf* leaf) { return leaf->number == i; });
        if (wanted == columns.end())
          in.skip(chunks.item);
        else
          found[static_cast<size_t>(wanted - columns.begin())] = read_chunk(in);
      }
    } else {
      in.skip(*field);
    }
  }
  for (size_t i = 0; i < columns.size(); ++i)
    group.chunks.push_back(checked(found[i], where_, *columns[i], group.number, data_end_));
  return group;
}

void Footer::each_row_group(std::span<const Leaf* const> columns,
                            const std::function<void(const RowGroup&)>& visit) const {
  if (groups_ == 0) return;
  ThriftReader in(bytes_.text(), where_, task_, groups_at_);
  in.structure(in.list({4, kListType}).item);
  for (int64_t i = 0; i < groups_; ++i) {
    check_task(task_);
    visit(read_row_group(in, i, columns));
  }
}

} // namespace dllm::text::parquet
