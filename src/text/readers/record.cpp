#include "text/readers/readers.h"

#include "base/error.h"
#include "base/options.h"
#include "text/json_reader.h"
#include "text/unicode.h"

#include <algorithm>

namespace dllm::text {

namespace {

// A member of a row: absent, of a wrong type, or read.
struct Member {
  bool present = false;
  const char* wrong_type = nullptr; // the type that was found
};

struct TextMember : Member {
  std::string value;
};

template <class T> struct NumbersMember : Member {
  std::vector<T> values;
  int64_t bad = -1; // first item that is not such a number
};

bool begin_member(JsonScanner& json, char wanted, Member& member) {
  member.present = true;
  member.wrong_type = json.next() == wanted ? nullptr : json.next_type();
  if (member.wrong_type != nullptr) json.skip();
  return member.wrong_type == nullptr;
}

void read_member(JsonScanner& json, TextMember& member) {
  member = {};
  if (begin_member(json, '"', member)) member.value = json.string();
}

template <class T>
void read_numbers(JsonScanner& json, std::string_view text, int64_t largest,
                  NumbersMember<T>& member) {
  member = {};
  if (!begin_member(json, '[', member)) return;
  // Reserve exactly the memory of the numbers; a list that grows would need three times as much.
  const size_t end = std::min(text.find(']', json.at()), text.size());
  member.values.reserve(
      1 + static_cast<size_t>(std::count(text.begin() + static_cast<std::ptrdiff_t>(json.at()),
                                         text.begin() + static_cast<std::ptrdiff_t>(end), ',')));
  json.open_array();
  for (int64_t i = 0; json.next_item(); ++i) {
    int64_t value = -1;
    const bool whole = json.next() == '0';
    const bool good = whole ? json.integer(value) && value >= 0 && value <= largest : false;
    if (!whole) json.skip();
    if (!good && member.bad < 0) member.bad = i;
    member.values.push_back(good ? static_cast<T>(value) : T{});
  }
}

bool has(const Member& member) {
  const bool null = member.wrong_type != nullptr && std::string_view(member.wrong_type) == "null";
  return member.present && !null;
}

void need(const Member& member, std::string_view key, const char* type, const std::string& where) {
  if (!has(member)) fail(Code::data_loss, "{}: \"{}\" is missing", where, key);
  if (member.wrong_type == nullptr) return;
  fail(Code::data_loss, "{}: \"{}\" must be {}, found {}", where, key, type, member.wrong_type);
}

// The members of a row that have a meaning.
struct Row {
  TextMember text, prompt, response;
  NumbersMember<int32_t> ids;
  NumbersMember<uint8_t> keep;
  bool messages = false;
  std::string keys; // all of them, for an error
};

Row read_row(JsonScanner& json, std::string_view text, const RecordKeys& keys) {
  Row row;
  std::string key;
  json.open_object();
  size_t count = 0;
  while (json.next_key(key)) {
    constexpr size_t kShown = 20, kLongest = 40;
    if (++count <= kShown)
      row.keys += (row.keys.empty() ? "" : ", ") + replace_invalid(key.substr(0, kLongest));
    if (key == keys.text)
      read_member(json, row.text);
    else if (key == keys.prompt)
      read_member(json, row.prompt);
    else if (key == keys.response)
      read_member(json, row.response);
    else if (key == "ids")
      read_numbers(json, text, INT32_MAX, row.ids);
    else if (key == "keep")
      read_numbers(json, text, 1, row.keep);
    else {
      if (key == "messages") row.messages = json.next_type() != std::string_view("null");
      json.skip();
    }
  }
  return row;
}

void take_ids(Row& row, const std::string& where, Record& record) {
  need(row.ids, "ids", "an array", where);
  if (row.ids.bad >= 0)
    fail(Code::data_loss, "{}: ids[{}] is not a token number", where, row.ids.bad);
  record.ids = std::move(row.ids.values);
  if (!has(row.keep)) return;
  need(row.keep, "keep", "an array", where);
  if (row.keep.bad >= 0)
    fail(Code::data_loss, "{}: keep[{}] is neither 0 nor 1", where, row.keep.bad);
  record.keep = std::move(row.keep.values);
  if (record.keep.size() != record.ids.size()) {
    fail(Code::data_loss, "{}: {} ids but {} keep", where, record.ids.size(), record.keep.size());
  }
}

[[noreturn]] void fail_unknown(const Row& row, const std::string& where, const RecordKeys& keys) {
  const std::string hint = "name them with text_key, or prompt_key and response_key "
                           "(--prompt-key, --response-key)";
  if (row.prompt.present) {
    fail_with_hint(hint, Code::data_loss,
                   "{}: \"{}\" is missing next to \"{}\", and \"messages\" too: the row has {}",
                   where, keys.response, keys.prompt, row.keys);
  }
  fail_with_hint(
      hint, Code::data_loss,
      "{}: expected \"{}\", or \"{}\" and \"{}\", or \"messages\", or \"ids\"; the row has {}",
      where, keys.text, keys.prompt, keys.response, row.keys.empty() ? "nothing" : row.keys);
}

Record record_of(Row row, const std::string& where, const RecordKeys& keys) {
  Record record;
  // In a table with rows of several kinds, absent members are null.
  const bool answered = has(row.prompt) && has(row.response);
  const bool any = has(row.text) || answered || has(row.ids) || row.messages;
  const auto is = [&](bool has_it, bool names_it) { return any ? has_it : names_it; };
  if (is(has(row.text), row.text.present)) {
    need(row.text, keys.text, "a string", where);
    record.text = std::move(row.text.value);
  } else if (is(answered, row.prompt.present && row.response.present)) {
    record.kind = Record::Kind::answer;
    need(row.prompt, keys.prompt, "a string", where);
    need(row.response, keys.response, "a string", where);
    record.prompt = std::move(row.prompt.value);
    record.text = std::move(row.response.value);
  } else if (is(has(row.ids), row.ids.present)) {
    record.kind = Record::Kind::ids;
    take_ids(row, where, record);
  } else if (row.messages) {
    record.kind = Record::Kind::chat;
    record.where = where;
  } else {
    fail_unknown(row, where, keys);
  }
  return record;
}

// Reads the next object. alone: fails when anything follows it. A chat keeps its text unchanged,
// because templates print members in their written order.
Record next_record(JsonScanner& json, std::string_view text, const std::string& where,
                   const RecordKeys& keys, bool alone) {
  const char* type = json.next_type();
  const size_t begin = json.at();
  const bool is_object = json.next() == '{';
  Row row;
  if (is_object)
    row = read_row(json, text, keys);
  else
    json.skip();
  const size_t end = json.at();
  if (alone) json.end();
  if (!is_object) fail(Code::data_loss, "{}: expected an object, found {}", where, type);
  Record record = record_of(std::move(row), where, keys);
  if (record.kind == Record::Kind::chat) record.text = text.substr(begin, end - begin);
  return record;
}

} // namespace

RecordKeys record_keys(const Options& options) {
  return {options.str("text_key"), options.str("prompt_key"), options.str("response_key")};
}

Record parse_record(std::string_view json, const std::string& where, const RecordKeys& keys) {
  JsonScanner scanner(json, where);
  return next_record(scanner, json, where, keys, true);
}

std::vector<Record> parse_records(std::string_view json, const std::string& where,
                                  const RecordKeys& keys) {
  JsonScanner scanner(json, where);
  if (scanner.next() != '[') return {parse_record(json, where, keys)};
  std::vector<Record> records;
  scanner.open_array();
  while (scanner.next_item()) {
    const std::string inside = where + fmt::format("[{}]", records.size());
    records.push_back(next_record(scanner, json, inside, keys, false));
  }
  scanner.end();
  return records;
}

} // namespace dllm::text
