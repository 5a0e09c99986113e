// This file makes rows of Parquet files, the usual format of model hubs: columns of text, or
// conversations in a column of lists. src/text/parquet reads the columns. RowShapes says which
// columns make a row.
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

constexpr size_t kMaxMembers = 16;     // of a message
constexpr int64_t kRowsUnchecked = 64; // between two checks of the task

// The columns from which rows are made.
struct Columns {
  const RowShape* shape = nullptr;
  // One per member of the shape, with the optional member at the end where the file has it. For
  // messages: the members of a message.
  std::vector<const Leaf*> leaves;

  bool is_list() const {
    return shape->kind == RowShape::Kind::chat || shape->kind == RowShape::Kind::turns;
  }
  // Returns true for an input of an instruction, which may be null.
  bool is_optional(size_t column) const { return !is_list() && column >= shape->members.size(); }
};

std::string shown_leaves(const std::vector<Leaf>& leaves) {
  std::vector<std::string> names;
  for (const Leaf& leaf : leaves) names.push_back(leaf.path);
  return shown_columns(names);
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
                     shown_leaves(leaves),
                 Code::unimplemented, "{}: column {} holds no texts", file, leaf.path);
}

// Returns the columns of a list: of its texts, or of the members of its structs.
std::vector<const Leaf*> list_members(const std::vector<Leaf>& leaves, const std::string& list,
                                      const std::string& file) {
  std::vector<const Leaf*> members;
  for (const Leaf& leaf : leaves) {
    if (leaf.top != list) continue;
    check_text(leaf, 1, file, leaves);
    if (!members.empty() && leaf.group != members[0]->group) {
      fail_with_hint("flatten it, or drop the column", Code::unimplemented,
                     "{}: column {} is nested deeper than {}", file, leaf.path, members[0]->path);
    }
    members.push_back(&leaf);
  }
  if (members.size() > kMaxMembers) {
    fail_with_hint("keep role and content", Code::unimplemented,
                   "{}: a message has {} members, but the limit is {}", file, members.size(),
                   kMaxMembers);
  }
  return members;
}

// Returns true for a column of texts, or of lists where the shape has a list.
bool fits(const std::vector<Leaf>& leaves, const RowShape& shape, const std::string& name) {
  using Kind = RowShape::Kind;
  if (shape.kind == Kind::ids) return false; // token numbers are not read
  const auto in_list = [&](const Leaf& leaf) {
    return leaf.top == name && leaf.max_repetition > 0;
  };
  const auto members = std::count_if(leaves.begin(), leaves.end(), in_list);
  if (shape.kind == Kind::turns) return members == 1;
  if (shape.kind == Kind::chat) return members > 0;
  const bool is_pair = shape.kind == Kind::pair;
  return find_column(leaves, name) != nullptr || (is_pair && members > 0);
}

Columns choose_columns(const std::vector<Leaf>& leaves, const std::string& file,
                       const RowShapes& shapes) {
  using Kind = RowShape::Kind;
  Columns chosen;
  chosen.shape = shapes.find(
      [&](const RowShape& shape, int slot) { return fits(leaves, shape, shapes.name(slot)); });
  if (chosen.shape == nullptr) {
    const bool has_prompt = find_column(leaves, shapes.name(shapes.prompt())) != nullptr;
    shapes.refuse(file, shown_leaves(leaves), has_prompt);
  }
  if (chosen.shape->kind == Kind::pair) shapes.refuse_pair(file);
  if (chosen.is_list()) {
    chosen.leaves = list_members(leaves, shapes.name(chosen.shape->members[0]), file);
    return chosen;
  }
  for (const int slot : chosen.shape->members)
    chosen.leaves.push_back(find_column(leaves, shapes.name(slot)));
  if (chosen.shape->optional >= 0) {
    const Leaf* optional = find_column(leaves, shapes.name(chosen.shape->optional));
    if (optional != nullptr) chosen.leaves.push_back(optional);
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
      fault_.clear();
      where_ = fmt::format("{} row {}", job_.file->path(), first + row + 1);
      std::vector<std::string> texts;
      if (columns_.is_list())
        texts.push_back(read_messages());
      else
        for (size_t i = 0; i < readers_.size(); ++i) texts.push_back(read_text(i));
      Record record = record_of_texts(*columns_.shape, std::move(texts), where_);
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
    if (!text && !columns_.is_optional(column))
      fault(Code::data_loss, fmt::format("\"{}\" is missing", columns_.leaves[column]->path));
    return text && check(*text, column) ? std::string(*text) : std::string();
  }

  // Returns the messages as JSON, the form that chat templates take. Members that are null are left
  // out.
  std::string read_messages() {
    std::string json = "[";
    for (size_t i = 0; i < readers_.size(); ++i) {
      if (!readers_[i].more() || readers_[i].repetition() != 0)
        damaged(i, "fewer values than rows");
    }
    for (bool first = true; first || goes_on(); first = false) {
      if (!add_message(json, first)) break;
      if (static_cast<int64_t>(json.size()) > kMaxRecord && fault_.empty())
        fault(Code::resource_exhausted,
              fmt::format("its messages have more than {} bytes", kMaxRecord));
      if (!fault_.empty()) json.clear();
    }
    return json + "]";
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
    const bool is_turn = columns_.shape->kind == RowShape::Kind::turns;
    bool any = false, is_there = false;
    if (++messages_ % kRowsUnchecked == 0) check_task(job_.task);
    for (size_t i = 0; i < readers_.size(); ++i) {
      const Leaf& leaf = *columns_.leaves[i];
      const int definition = readers_[i].definition();
      const bool there = definition >= leaf.item_definition;
      if (i > 0 && there != is_there)
        damaged(i, "its lists have other lengths than the lists of the other columns");
      if (!there && definition < leaf.item_definition - 1)
        fault(Code::data_loss, fmt::format("\"{}\" is missing", leaf.top));
      if (i == 0 && there) json += fmt::format("{}{}", first ? "" : ", ", is_turn ? "" : "{");
      is_there = there;
      const auto text = readers_[i].take();
      if (!text || !check(*text, i)) continue;
      if (is_turn)
        json += json_string(*text);
      else
        json += (any ? ", " : "") + json_string(leaf.name) + ": " + json_string(*text);
      any = true;
    }
    if (is_there && is_turn && !any) json += "\"\""; // a text that is null
    if (is_there && !is_turn) json += "}";
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
  const RowShapes shapes = record_keys(job.options);
  const Columns columns = choose_columns(footer.leaves(), path, shapes);
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
