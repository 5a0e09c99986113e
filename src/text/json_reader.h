#pragma once
// This header reads JSON in two ways. parse_tree() makes a tree, which serves lookups in tokenizer
// files (objects of 150,000 keys). JsonScanner walks over the text, which serves rows of data: a
// tree would take many times the memory of the row.

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::text {

// JSON with sorted keys. dllm::Json keeps keys in a list and searches all of it for each new key.
using TreeJson = nlohmann::json;

// Fails with data_loss for invalid JSON and for nesting deeper than 64; `what` names the document
// in errors.
TreeJson parse_tree(std::string_view text, std::string_view what);

// The functions below read a member of an object. A member that is absent or null yields the
// fallback, and fails with data_loss where a function has no fallback. A member of a wrong type
// fails with data_loss. `where` is the path in the file ("tokenizer.json: decoder.decoders[1]").

// Returns null when the member is absent or null, or `object` is not an object.
const TreeJson* find_member(const TreeJson& object, const char* key);
std::string string_member(const TreeJson& object, const char* key, const std::string& where);
std::string string_member(const TreeJson& object, const char* key, const std::string& where,
                          const std::string& fallback);
bool bool_member(const TreeJson& object, const char* key, const std::string& where, bool fallback);
int64_t int_member(const TreeJson& object, const char* key, const std::string& where,
                   int64_t fallback);
const TreeJson& array_member(const TreeJson& object, const char* key, const std::string& where);
// Returns the text as a JSON string; bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);
// Returns member "type" of a component. Fails with data_loss unless `object` is an object with a
// string "type".
std::string type_of(const TreeJson& object, const std::string& where);

// Walks over a JSON text and accepts only RFC 8259 in UTF-8, at most 64 levels deep. Fails with
// data_loss, "<where> is not valid JSON near byte N".
class JsonScanner {
public:
  // text and where outlive the scanner.
  JsonScanner(std::string_view text, const std::string& where);

  // Returns the kind of the next value: '{' '[' '"' 't' 'f' 'n', '0' for a number, or 0 at the end
  // of the text.
  char next();
  const char* next_type();          // the next value's type, "object" ..., for an error
  size_t at() const { return at_; } // bytes walked over

  // open_object() enters the next object. Each next_key() reads a key; the caller then reads its
  // value with string(), skip() or another walk. next_key() returns false at the object's end.
  void open_object() { open('{'); }
  bool next_key(std::string& key);
  // The same for arrays: the caller reads one item after each next_item() that returns true.
  void open_array() { open('['); }
  bool next_item();

  std::string string(); // REQUIRES: next() == '"'
  // Reads a number. Returns false when it is not a whole number that fits, and skips it then.
  // REQUIRES: next() == '0'.
  bool integer(int64_t& value);
  void skip(); // checks and skips the next value
  void end();  // fails unless the text ends here

private:
  [[noreturn]] void bad() const;
  void open(char c);
  bool more(char close);
  // Returns the string's bytes between the quotes, with escapes unchanged.
  std::string_view raw_string();
  std::string_view number();
  uint32_t hex4(std::string_view raw, size_t at) const;
  void take(std::string_view word);

  std::string_view text_;
  const std::string& where_;
  size_t at_ = 0;
  // One entry per open object or array; true: none of its members was read yet.
  std::vector<bool> fresh_;
};

} // namespace dllm::text
