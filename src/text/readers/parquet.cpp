// This file makes rows of Parquet files, the usual format of model hubs: columns of text, or
// conversations in a column of lists. src/text/parquet reads the columns.
#include "base/error.h"
#include "base/task.h"
#include "text/json_reader.h"
#include "text/parquet/column.h"
#include "text/readers/readers.h"
#include "text/unicode.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace dllm::text {

namespace {

using parquet::ColumnReader;
using parquet::Footer;
using parquet::Leaf;
using parquet::RowGroup;

constexpr const char* kMessages = "messages";
constexpr size_t kMaxMembers = 16;     // of a message
constexpr size_t kColumnsShown = 20;   // in an error
constexpr int64_t kRowsUnchecked = 64; // between two checks of the task

// The columns from which rows are made.
struct Columns {
  Record::Kind kind = Record::Kind::text;
  std::vector<const Leaf*> leaves; // the text; prompt and response; the members of a message
};

std::string list_columns(const std::vector<Leaf>& leaves) {
  std::vector<std::string> names;
  for (const Leaf& leaf : leaves) {
    if (names.size() == kColumnsShown) {
      names.push_back(fmt::format("and {} more", leaves.size() - kColumnsShown));
      break;
    }
    names.push_back(leaf.path);
  }
  return fmt::format("the columns are {}", fmt::join(names, ", "));
}

const Leaf* find_column(const std::vector<Leaf>& leaves, const std::string& path) {
  const auto found = std::find_if(leaves.begin(), leaves.end(),
                                  [&](const Leaf& leaf) { return leaf.path == path; });
  return found == leaves.end() ? nullptr : &*found;
}

void check_text(const Leaf& leaf, int lists, const std::string& file,
                const std::vector<Leaf>& leaves) {
  if (leaf.type == parquet::Physical::bytes && leaf.max_repetition == lists) return;
  fail_with_hint("drop the column, or choose others with text_key, prompt_key and response_key; " +
                     list_columns(leaves),
                 Code::unimplemented, "{}: column {} holds no texts", file, leaf.path);
}

// Returns the columns of the members of the structs in the list `messages`.
std::vector<const Leaf*> message_members(const std::vector<Leaf>& leaves, const std::string& file) {
  std::vector<const Leaf*> members;
  for (const Leaf& leaf : leaves) {
    if (leaf.top != kMessages) continue;
    check_text(leaf, 1, file, leaves);
    if (!members.empty() && leaf.group != members[0]->group) {
      fail_with_hint("flatten it, or drop the column", Code::unimplemented,
                     "{}: column {} is nested deeper than {}", file, leaf.path, members[0]->path);
    }
    members.push_back(&leaf);
  }
  if (members.size() > kMaxMembers) {
    fail_with_hint("keep role and content", Code::unimplemented,
                   "{}: {} members of a message, more than {}", file, members.size(), kMaxMembers);
  }
  return members;
}

// Chooses text, else prompt and response, else messages, in the order of JSON rows (record.cpp).
Columns choose_columns(const std::vector<Leaf>& leaves, const std::string& file,
                       const RecordKeys& keys) {
  Columns chosen;
  const Leaf* prompt = find_column(leaves, keys.prompt);
  const Leaf* response = find_column(leaves, keys.response);
  if (const Leaf* text = find_column(leaves, keys.text)) {
    chosen.leaves = {text};
  } else if (prompt != nullptr && response != nullptr) {
    chosen.kind = Record::Kind::answer;
    chosen.leaves = {prompt, response};
  } else {
    chosen.kind = Record::Kind::chat;
    chosen.leaves = message_members(leaves, file);
    if (!chosen.leaves.empty()) return chosen;
    const std::string hint =
        "set text_key, or prompt_key and response_key; " + list_columns(leaves);
    if (prompt != nullptr)
      fail_with_hint(hint, Code::data_loss, "{} has a column {} but no column {} or {}", file,
                     keys.prompt, keys.response, kMessages);
    fail_with_hint(hint, Code::data_loss, "{} has no column {}, {} or {}", file, keys.text,
                   keys.prompt, kMessages);
  }
  for (const Leaf* leaf : chosen.leaves) check_text(*leaf, 0, file, leaves);
  return chosen;
}

// The rows of one row group.
class Rows {
public:
  Rows(const ReadJob& job, const Columns& columns, const RowGroup& group)
      : job_(job), columns_(columns), group_(group) {
    readers_.reserve(columns.leaves.size());
    for (size_t i = 0; i < columns.leaves.size(); ++i) {
      readers_.emplace_back(*job.file, *columns.leaves[i], group, group.chunks[i], job.task,
                            job.at);
    }
  }

  // first: the number of the first row in the file, from 0.
  void give(int64_t first, const RecordSink& sink) {
    for (int64_t row = 0; row < group_.rows; ++row) {
      if (row % kRowsUnchecked == 0) check_task(job_.task);
      Record record;
      record.kind = columns_.kind;
      fault_.clear();
      where_ = fmt::format("{} row {}", job_.file->path(), first + row + 1);
      if (columns_.kind == Record::Kind::chat) {
        read_messages(record);
      } else {
        if (columns_.kind == Record::Kind::answer) record.prompt = read_text(0);
        record.text = read_text(columns_.leaves.size() - 1);
      }
      if (fault_.empty()) {
        sink(std::move(record));
        continue;
      }
      const Error error(fault_code_, fmt::format("{}: {}", where_, fault_));
      if (!job_.reject) throw error;
      job_.reject(error);
    }
    for (size_t i = 0; i < readers_.size(); ++i) {
      if (readers_[i].more()) damaged(i, "more values than rows");
    }
  }

private:
  [[noreturn]] void damaged(size_t column, const char* what) const {
    fail_with_hint(parquet::kCopyHint, Code::data_loss, "{}: column {}, row group {}: {}",
                   job_.file->path(), columns_.leaves[column]->path, group_.number + 1, what);
  }
  // Marks the row as unusable; only its first fault is kept.
  void fault(Code code, std::string what) {
    if (!fault_.empty()) return;
    fault_code_ = code;
    fault_ = std::move(what);
  }
  bool check(std::string_view text, size_t column) {
    const std::string& name = columns_.leaves[column]->path;
    if (static_cast<int64_t>(text.size()) > kMaxRecord) {
      fault(Code::resource_exhausted,
            fmt::format("\"{}\" has {} bytes, more than {}", name, text.size(), kMaxRecord));
    } else if (!is_valid_utf8(text)) {
      fault(Code::data_loss, fmt::format("\"{}\" is not UTF-8", name));
    }
    return fault_.empty();
  }

  std::string read_text(size_t column) {
    ColumnReader& reader = readers_[column];
    if (!reader.more()) damaged(column, "fewer values than rows");
    const auto text = reader.take();
    if (!text)
      fault(Code::data_loss, fmt::format("\"{}\" is missing", columns_.leaves[column]->path));
    return text && check(*text, column) ? std::string(*text) : std::string();
  }

  // Returns the row as JSON, the form that chat templates take. Members that are null are left out.
  void read_messages(Record& record) {
    record.where = where_;
    record.text = "{\"messages\": [";
    for (size_t i = 0; i < readers_.size(); ++i) {
      if (!readers_[i].more() || readers_[i].repetition() != 0)
        damaged(i, "fewer values than rows");
    }
    for (bool first = true; first || goes_on(); first = false) {
      if (!add_message(record.text, first)) break;
      if (static_cast<int64_t>(record.text.size()) > kMaxRecord && fault_.empty())
        fault(Code::resource_exhausted,
              fmt::format("its messages have more than {} bytes", kMaxRecord));
      if (!fault_.empty()) record.text.clear();
    }
    record.text += "]}";
  }
  // Returns true when the list has one more message.
  bool goes_on() {
    const bool on = readers_[0].more() && readers_[0].repetition() != 0;
    for (size_t i = 1; i < readers_.size(); ++i) {
      if ((readers_[i].more() && readers_[i].repetition() != 0) != on)
        damaged(i, "its lists have other lengths than the lists of the other columns");
    }
    return on;
  }
  // Returns false when the list has no message, or is null.
  bool add_message(std::string& json, bool first) {
    bool any = false, is_there = false;
    if (++messages_ % kRowsUnchecked == 0) check_task(job_.task);
    for (size_t i = 0; i < readers_.size(); ++i) {
      const Leaf& leaf = *columns_.leaves[i];
      const int definition = readers_[i].definition();
      const bool there = definition >= leaf.item_definition;
      if (i > 0 && there != is_there)
        damaged(i, "its lists have other lengths than the lists of the other columns");
      if (!there && definition < leaf.item_definition - 1)
        fault(Code::data_loss, fmt::format("\"{}\" is missing", kMessages));
      if (i == 0 && there) json += first ? "{" : ", {";
      is_there = there;
      const auto text = readers_[i].take();
      if (!text || !check(*text, i)) continue;
      json += (any ? ", " : "") + json_string(leaf.name) + ": " + json_string(*text);
      any = true;
    }
    if (is_there) json += "}";
    return is_there;
  }

  const ReadJob& job_;
  const Columns& columns_;
  const RowGroup& group_;
  std::vector<ColumnReader> readers_;
  int64_t messages_ = 0;
  std::string where_;
  Code fault_code_ = Code::data_loss;
  std::string fault_; // of the row; empty: none
};

void read_parquet(const ReadJob& job, const RecordSink& sink) {
  const std::string& path = job.file->path();
  if (is_gzip(*job.file)) {
    fail_with_hint("decompress it with gunzip", Code::invalid_argument,
                   "{} is compressed, but the columns of a Parquet file are read in place", path);
  }
  const Footer footer(*job.file, job.task);
  const Columns columns = choose_columns(footer.leaves(), path, record_keys(job.options));
  int64_t rows = 0;
  footer.each_row_group(columns.leaves, [&](const RowGroup& group) {
    Rows(job, columns, group).give(rows, sink);
    rows += group.rows;
  });
}

} // namespace

Reader parquet_reader() {
  return {.name = "parquet",
          .endings = {".parquet"},
          .recognizes = [](const FileHead& file) { return file.head.starts_with(parquet::kMagic); },
          .read = read_parquet};
}

} // namespace dllm::text
