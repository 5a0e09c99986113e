#pragma once
// JSON of tokenizer files: big objects (150,000 keys) in a map, and lookups whose errors name the
// place.

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>

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

} // namespace dllm::text
