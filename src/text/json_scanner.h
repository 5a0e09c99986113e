#pragma once
// Walks over a JSON text without building a tree: only what is asked for takes memory. For rows of data, where a tree
// would be many times the line.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::text {

// Strict: RFC 8259, UTF-8, at most 64 deep. Fails with data_loss, "<where> is not valid JSON near byte N".
class JsonScanner {
public:
  // text and where outlive the scanner.
  JsonScanner(std::string_view text, const std::string& where);

  // What comes next: '{' '[' '"' 't' 'f' 'n', '0' for a number, 0 for the end of the text.
  char next();
  const char* next_type(); // "object" ... as an error says it
  size_t at() const { return at_; } // bytes walked over

  // Members of the object that comes next: after each key its value is taken with string(), skip() or another walk.
  // Until it answers false.
  void open_object() { open('{'); }
  bool next_key(std::string& key);
  void open_array() { open('['); }
  bool next_item(); // the item comes next; until it answers false

  std::string string(); // REQUIRES: next() == '"'
  // REQUIRES: next() == '0'. False when it is no whole number that fits; it is walked over anyway.
  bool integer(int64_t& value);
  void skip(); // the value that comes next, checked
  void end();  // nothing may come any more

private:
  [[noreturn]] void bad() const;
  void open(char c);
  bool more(char close);
  // The string's bytes between the quotes, as they stand.
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
