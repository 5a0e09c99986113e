#pragma once
// The patterns of JSON itself: characters, exact values, and values of any kind.

#include "base/json.h"

#include <string>

namespace dllm::generate {

// One space may follow a comma and a colon.
inline constexpr const char *kJsonComma = ", ?", *kJsonColon = ": ?";
// A character of a text: as it is, or as an escape. Halves of a surrogate pair have no escape.
inline constexpr const char* kJsonCharacter =
    R"((?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u(?:[0-9a-cefA-CEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}))))";
// A character of a name that the schema does not give. Each has one form, so two names are equal
// only if their JSON is. Other control characters are in no name.
inline constexpr const char* kJsonNameCharacter = R"((?:[^"\\\x00-\x1f]|\\["\\bfnrt]))";
// One of ASCII without an escape, for which programs agree about \S, \W and a dot.
inline constexpr const char* kJsonPlainCharacter = R"([ !#-\[\]-~])";

// Levels of arrays and objects in a value of any kind.
inline constexpr int kMostFreeLevels = 3;

// Returns the pattern of this value alone.
std::string exact_json(const Json& value);

// Returns the pattern of a value of any kind, whose arrays and objects have at most `levels`
// levels. Names inside it have kJsonNameCharacter.
std::string any_json(int levels);

// Returns "(?:" + pattern + ")".
std::string grouped(const std::string& pattern);

} // namespace dllm::generate
