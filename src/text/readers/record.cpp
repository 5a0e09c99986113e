#include "text/readers/readers.h"

#include "base/error.h"
#include "text/json_reader.h"
#include "text/unicode.h"

#include <algorithm>

namespace dllm::text {

namespace {

// A member of a row with a name of the table. A text is decoded; another value stays in the row's
// JSON.
struct Cell {
  const char* type = nullptr; // null: the row has no such member
  std::string text;
  size_t begin = 0, end = 0; // bytes of the value in the JSON

  bool is(std::string_view wanted) const { return type != nullptr && type == wanted; }
  // In a table with rows of several kinds, absent members are null.
  bool has() const { return type != nullptr && !is("null"); }
};

template <class T> struct Numbers {
  std::vector<T> values;
  int64_t bad = -1; // first item that is not such a number
};

struct Row {
  std::vector<Cell> cells; // by slot
  Numbers<int32_t> ids;
  Numbers<uint8_t> keep;
  std::string keys; // all of them, for an error

  const Cell& cell(int slot) const { return cells[static_cast<size_t>(slot)]; }
};

template <class T>
void read_numbers(JsonScanner& json, std::string_view text, int64_t largest, Numbers<T>& numbers) {
  numbers = {};
  // Reserve exactly the memory of the numbers; a list that grows would need three times as much.
  const size_t end = std::min(text.find(']', json.at()), text.size());
  numbers.values.reserve(
      1 + static_cast<size_t>(std::count(text.begin() + static_cast<std::ptrdiff_t>(json.at()),
                                         text.begin() + static_cast<std::ptrdiff_t>(end), ',')));
  json.open_array();
  for (int64_t i = 0; json.next_item(); ++i) {
    int64_t value = -1;
    const bool whole = json.next() == '0';
    const bool good = whole ? json.integer(value) && value >= 0 && value <= largest : false;
    if (!whole) json.skip();
    if (!good && numbers.bad < 0) numbers.bad = i;
    numbers.values.push_back(good ? static_cast<T>(value) : T{});
  }
}

void read_cell(JsonScanner& json, std::string_view text, std::string_view name, Row& row,
               Cell& cell) {
  cell = {};
  cell.type = json.next_type();
  cell.begin = json.at();
  if (cell.is("string"))
    cell.text = json.string();
  else if (cell.is("array") && name == "ids")
    read_numbers(json, text, INT32_MAX, row.ids);
  else if (cell.is("array") && name == "keep")
    read_numbers(json, text, 1, row.keep);
  else
    json.skip();
  cell.end = json.at();
}

Row read_row(JsonScanner& json, std::string_view text, const RowShapes& shapes) {
  constexpr size_t kShown = 20, kLongest = 40;
  Row row;
  row.cells.resize(shapes.names().size());
  std::string key;
  json.open_object();
  for (size_t count = 0; json.next_key(key);) {
    if (++count <= kShown)
      row.keys += (row.keys.empty() ? "" : ", ") + replace_invalid(key.substr(0, kLongest));
    const int slot = shapes.slot(key);
    if (slot < 0)
      json.skip();
    else
      read_cell(json, text, key, row, row.cells[static_cast<size_t>(slot)]);
  }
  return row;
}

// Fails unless the row has the member with a value of this type.
const Cell& need(const Row& row, int slot, const char* type, const RowShapes& shapes,
                 const std::string& where) {
  const Cell& cell = row.cell(slot);
  if (!cell.has()) fail(Code::data_loss, "{}: \"{}\" is missing", where, shapes.name(slot));
  if (cell.is(type)) return cell;
  fail(Code::data_loss, "{}: \"{}\" must be {} {}, found {}", where, shapes.name(slot),
       *type == 'a' ? "an" : "a", type, cell.type);
}

Record take_ids(Row& row, const RowShape& shape, const RowShapes& shapes,
                const std::string& where) {
  Record record;
  record.kind = Record::Kind::ids;
  record.where = where;
  need(row, shape.members[0], "array", shapes, where);
  if (row.ids.bad >= 0)
    fail(Code::data_loss, "{}: ids[{}] is not a token number", where, row.ids.bad);
  record.ids = std::move(row.ids.values);
  if (!row.cell(shapes.keep()).has()) return record;
  need(row, shapes.keep(), "array", shapes, where);
  if (row.keep.bad >= 0)
    fail(Code::data_loss, "{}: keep[{}] is neither 0 nor 1", where, row.keep.bad);
  record.keep = std::move(row.keep.values);
  if (record.keep.size() != record.ids.size()) {
    fail(Code::data_loss, "{}: {} ids but {} keep", where, record.ids.size(), record.keep.size());
  }
  return record;
}

// Takes the messages unchanged, because templates print members in their written order.
Record take_messages(const Row& row, const RowShape& shape, const RowShapes& shapes,
                     std::string_view text, const std::string& where) {
  Record record;
  record.kind = Record::Kind::chat;
  record.where = where;
  need(row, shape.members[0], "array", shapes, where);
  const std::pair<const char*, int> parts[] = {{"{\"messages\": ", shape.members[0]},
                                               {", \"tools\": ", shapes.tools()},
                                               {", \"system\": ", shapes.system()}};
  for (const auto& [name, slot] : parts) {
    const Cell& cell = row.cell(slot);
    if (!cell.has()) continue;
    record.text += name;
    record.text += text.substr(cell.begin, cell.end - cell.begin);
  }
  record.text += "}";
  return record;
}

Record take_texts(Row& row, const RowShape& shape, const RowShapes& shapes,
                  const std::string& where) {
  std::vector<std::string> texts;
  for (const int slot : shape.members) {
    need(row, slot, "string", shapes, where);
    texts.push_back(std::move(row.cells[static_cast<size_t>(slot)].text));
  }
  if (shape.optional >= 0 && row.cell(shape.optional).has()) {
    need(row, shape.optional, "string", shapes, where);
    texts.push_back(std::move(row.cells[static_cast<size_t>(shape.optional)].text));
  }
  return record_of_texts(shape, std::move(texts), where);
}

// Returns true for an array that is empty, or whose first item is a text.
bool holds_turns(const Cell& cell, std::string_view text) {
  if (!cell.is("array")) return false;
  const size_t first = text.find_first_not_of(" \t\r\n", cell.begin + 1);
  return first < cell.end && (text[first] == '"' || text[first] == ']');
}

Record record_of(Row row, std::string_view text, const std::string& where,
                 const RowShapes& shapes) {
  using Kind = RowShape::Kind;
  const auto fits = [&](const RowShape& shape, int slot) {
    const Cell& cell = row.cell(slot);
    return shape.kind == Kind::turns ? holds_turns(cell, text) : cell.has();
  };
  const RowShape* shape = shapes.find(fits);
  if (shape == nullptr) {
    // A member that is null or has another type is named.
    shape = shapes.find([&](const RowShape& one, int slot) {
      return one.kind != Kind::turns && row.cell(slot).type != nullptr;
    });
  }
  if (shape == nullptr) {
    shapes.refuse(where, "the row has " + (row.keys.empty() ? "nothing" : row.keys),
                  row.cell(shapes.prompt()).type != nullptr);
  }
  if (shape->kind == Kind::pair) shapes.refuse_pair(where);
  const bool has_messages = shape->kind == Kind::chat || shape->kind == Kind::turns;
  Record record = shape->kind == Kind::ids ? take_ids(row, *shape, shapes, where)
                  : has_messages           ? take_messages(row, *shape, shapes, text, where)
                                           : take_texts(row, *shape, shapes, where);
  record.has_names = true;
  record.chosen = shape->chosen;
  return record;
}

// Reads the next object. alone: fails when anything follows it.
Record next_record(JsonScanner& json, std::string_view text, const std::string& where,
                   const RowShapes& shapes, bool alone) {
  const char* type = json.next_type();
  const bool is_object = json.next() == '{';
  Row row;
  if (is_object)
    row = read_row(json, text, shapes);
  else
    json.skip();
  if (alone) json.end();
  if (!is_object) {
    fail_with_hint("a file with an array of objects has format json (--dataset.format json)",
                   Code::data_loss, "{}: expected an object, found {}", where, type);
  }
  return record_of(std::move(row), text, where, shapes);
}

} // namespace

Record record_of_texts(const RowShape& shape, std::vector<std::string> texts,
                       const std::string& where) {
  using Kind = RowShape::Kind;
  Record record;
  record.has_names = true;
  record.chosen = shape.chosen;
  if (shape.kind == Kind::text) {
    record.text = std::move(texts[0]);
    return record;
  }
  record.where = where;
  if (shape.kind == Kind::chat || shape.kind == Kind::turns) {
    record.kind = Record::Kind::chat;
    record.text = "{\"messages\": " + texts[0] + "}";
    return record;
  }
  record.kind = shape.kind == Kind::answer ? Record::Kind::answer : Record::Kind::instruction;
  record.prompt = std::move(texts[0]);
  record.text = std::move(texts[1]);
  if (texts.size() > 2) record.input = std::move(texts[2]);
  return record;
}

Record parse_record(std::string_view json, const std::string& where, const RowShapes& shapes) {
  JsonScanner scanner(json, where);
  return next_record(scanner, json, where, shapes, true);
}

std::vector<Record> parse_records(std::string_view json, const std::string& where,
                                  const RowShapes& shapes) {
  JsonScanner scanner(json, where);
  if (scanner.next() != '[') return {parse_record(json, where, shapes)};
  std::vector<Record> records;
  scanner.open_array();
  while (scanner.next_item()) {
    const std::string inside = where + fmt::format("[{}]", records.size());
    records.push_back(next_record(scanner, json, inside, shapes, false));
  }
  scanner.end();
  return records;
}

} // namespace dllm::text
