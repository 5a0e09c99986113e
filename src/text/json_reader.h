#pragma once
// Two ways to read JSON: as a tree (tokenizer files: objects of 150,000 keys, lookups whose errors name the place), and
// by walking over the text (rows of data, where a tree would be many times the line).

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::text {

// Sorted keys: dllm::Json keeps the order of keys in a list and would look through all of them for
// each new one.
using TreeJson = nlohmann::json;

// `what` names the document in errors. Refuses nesting deeper than 64.
TreeJson parse_tree(std::string_view text, std::string_view what);

// Reads of object members; `where` is the path in the file ("tokenizer.json: decoder.decoders[1]").
// A member that is absent or null gives the fallback; one of a wrong type fails with data_loss
// naming it.
const TreeJson* find_member(const TreeJson& object, const char* key);
std::string string_member(const TreeJson& object, const char* key, const std::string& where);
std::string string_member(const TreeJson& object, const char* key, const std::string& where,
                          const std::string& fallback);
bool bool_member(const TreeJson& object, const char* key, const std::string& where, bool fallback);
int64_t int_member(const TreeJson& object, const char* key, const std::string& where,
                   int64_t fallback);
const TreeJson& array_member(const TreeJson& object, const char* key, const std::string& where);
// The text as a JSON string; bytes that are no UTF-8 become U+FFFD.
std::string json_string(std::string_view text);
// "type" of a component; fails unless `object` is an object with a string "type".
std::string type_of(const TreeJson& object, const std::string& where);

// Strict: RFC 8259, UTF-8, at most 64 deep. Fails with data_loss, "<where> is not valid JSON near byte N".
class JsonScanner {
public:
  // text and where outlive the scanner.
  JsonScanner(std::string_view text, const std::string& where);

  // What comes next: '{' '[' '"' 't' 'f' 'n', '0' for a number, 0 for the end of the text.
  char next();
  const char* next_type();          // "object" ... for an error
  size_t at() const { return at_; } // bytes walked over

  // Members of the object that comes next: after each key its value is taken with string(), skip() or another walk.
  // Until it returns false.
  void open_object() { open('{'); }
  bool next_key(std::string& key);
  void open_array() { open('['); }
  bool next_item(); // the item comes next; until it returns false

  std::string string(); // REQUIRES: next() == '"'
  // REQUIRES: next() == '0'. False when it is not a whole number that fits; it is skipped then too.
  bool integer(int64_t& value);
  void skip(); // the value that comes next, checked
  void end();  // nothing may come any more

private:
  [[noreturn]] void bad() const;
  void open(char c);
  bool more(char close);
  // The string's bytes between the quotes, escapes unchanged.
  std::string_view raw_string();
  std::string_view number();
  uint32_t hex4(std::string_view raw, size_t at) const;
  void take(std::string_view word);

  std::string_view text_;
  const std::string& where_;
  size_t at_ = 0;
  // Open objects and arrays; true: nothing of it was read yet.
  std::vector<bool> fresh_;
};

} // namespace dllm::text
