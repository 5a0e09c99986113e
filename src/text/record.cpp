#include "text/record.h"

#include "base/error.h"
#include "base/json.h"
#include "text/json_reader.h"

#include <algorithm>

namespace dllm::text {

namespace {

void read_ids(const TreeJson& object, const std::string& where, Record& record) {
  for (const TreeJson& id : array_member(object, "ids", where)) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX) {
      fail(Code::data_loss, "{}: ids[{}] is not a token number", where, record.ids.size());
    }
    record.ids.push_back(id.get<int32_t>());
  }
  if (find_member(object, "keep") == nullptr) return;
  for (const TreeJson& keep : array_member(object, "keep", where)) {
    if (!keep.is_number_integer() || keep < 0 || keep > 1) {
      fail(Code::data_loss, "{}: keep[{}] is neither 0 nor 1", where, record.keep.size());
    }
    record.keep.push_back(keep.get<uint8_t>());
  }
  if (record.keep.size() != record.ids.size()) {
    fail(Code::data_loss, "{}: {} ids but {} keep", where, record.ids.size(), record.keep.size());
  }
}

Record read_record(const TreeJson& object, const std::string& where, const RecordKeys& keys) {
  Record record;
  if (!object.is_object()) {
    fail(Code::data_loss, "{}: expected an object, found {}", where, object.type_name());
  }
  if (object.contains(keys.text)) {
    record.text = string_member(object, keys.text.c_str(), where);
  } else if (object.contains(keys.prompt)) {
    record.kind = Record::Kind::answer;
    record.prompt = string_member(object, keys.prompt.c_str(), where);
    record.text = string_member(object, keys.response.c_str(), where);
  } else if (object.contains("ids")) {
    record.kind = Record::Kind::ids;
    read_ids(object, where, record);
  } else if (object.contains("messages")) {
    record.kind = Record::Kind::chat;
    record.where = where;
  } else {
    fail(Code::data_loss, "{}: expected \"{}\", or \"{}\" and \"{}\", or \"messages\", or \"ids\"",
         where, keys.text, keys.prompt, keys.response);
  }
  return record;
}

} // namespace

Record parse_record(std::string_view json, const std::string& where, const RecordKeys& keys) {
  Record record = read_record(parse_tree(json, where), where, keys);
  if (record.kind == Record::Kind::chat) record.text = json;
  return record;
}

std::vector<Record> parse_records(std::string_view json, const std::string& where,
                                  const RecordKeys& keys) {
  const TreeJson value = parse_tree(json, where);
  std::vector<Record> records;
  if (!value.is_array()) {
    records.push_back(parse_record(json, where, keys));
    return records;
  }
  for (const TreeJson& item : value) {
    records.push_back(read_record(item, where + fmt::format("[{}]", records.size()), keys));
  }
  // Templates print members in the order they were written in: the tree has lost it.
  const auto is_chat = [](const Record& record) { return record.kind == Record::Kind::chat; };
  if (std::none_of(records.begin(), records.end(), is_chat)) return records;
  const Json ordered = parse_json(json, where);
  for (size_t i = 0; i < records.size(); ++i) {
    if (is_chat(records[i])) records[i].text = ordered[i].dump();
  }
  return records;
}

} // namespace dllm::text
