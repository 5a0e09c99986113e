// The text is JSON of a schema (JSON Schema 2020-12). A schema becomes a pattern. A part that
// contains itself is written out to a depth, and deeper values are left out. Keywords that restrict
// a value and have no pattern are refused, so that a text never breaks its schema.

#include "base/error.h"
#include "base/json.h"
#include "generate/constraints/constraint_kinds.h"
#include "generate/constraints/json_formats.h"
#include "generate/constraints/json_numbers.h"
#include "text/automaton/byte_automaton.h"
#include "text/automaton/json_pattern.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm::generate {
namespace {

// One space may follow a comma and a colon.
constexpr const char *kComma = ", ?", *kColon = ": ?";
// A character of a text: as it is, or as an escape. Halves of a surrogate pair have no escape.
constexpr const char* kCharacter =
    R"((?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u(?:[0-9a-cefA-CEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}))))";
// Keywords that restrict the values of a type.
struct TypeKeywords {
  std::string_view type;
  std::vector<std::string_view> keywords;
};

const std::vector<TypeKeywords>& type_keywords() {
  static const std::vector<std::string_view> numbers = {"minimum", "maximum", "exclusiveMinimum",
                                                        "exclusiveMaximum", "multipleOf"};
  static const std::vector<TypeKeywords> all = {
      {"string", {"minLength", "maxLength", "pattern", "format"}},
      {"integer", numbers},
      {"number", numbers},
      {"boolean", {}},
      {"null", {}},
      {"array", {"items", "prefixItems", "minItems", "maxItems"}},
      {"object", {"properties", "required", "minProperties", "maxProperties"}}};
  return all;
}

bool is_keyword_of(std::string_view type, std::string_view keyword) {
  return std::ranges::any_of(type_keywords(), [&](const TypeKeywords& row) {
    return row.type == type && std::ranges::find(row.keywords, keyword) != row.keywords.end();
  });
}

// Keywords that restrict nothing, or only what is never written.
constexpr std::string_view kFree[] = {"$schema",
                                      "$id",
                                      "$comment",
                                      "$defs",
                                      "title",
                                      "default",
                                      "definitions",
                                      "description",
                                      "examples",
                                      "readOnly",
                                      "writeOnly",
                                      "deprecated",
                                      "additionalProperties"};

std::string group(const std::string& pattern) {
  return "(?:" + pattern + ")";
}

std::string alternatives(const std::vector<std::string>& patterns) {
  std::string made;
  for (const std::string& pattern : patterns) made += (made.empty() ? "" : "|") + pattern;
  return group(made);
}

// The pattern of the values of a schema; nothing: no value is so flat that kMostLevels levels of
// parts that contain themselves are enough.
using MaybePattern = std::optional<std::string>;

class SchemaReader {
public:
  explicit SchemaReader(const Json& root) : root_(root) {}

  std::string pattern() {
    MaybePattern made = value(root_, "json_schema");
    if (!made)
      refuse("json_schema",
             fmt::format("no value has at most {} levels of a $ref that contains "
                         "itself",
                         kMostLevels),
             "let a level end, for example by anyOf with null");
    return *made;
  }

private:
  [[noreturn]] static void refuse(const std::string& where, const std::string& what,
                                  const std::string& hint) {
    fail_with_hint(hint, Code::invalid_argument, "{}: {}", where, what);
  }

  // Fails for a keyword that is not among `known` and restricts a value.
  static void check_keywords(const Json& schema, const std::vector<std::string_view>& known,
                             const std::string& where) {
    for (const auto& [key, content] : schema.items()) {
      if (std::ranges::find(kFree, key) != std::end(kFree)) continue;
      if (std::ranges::find(known, key) != known.end()) continue;
      refuse(where, fmt::format("keyword {} is not supported here", key),
             "leave it out, and check the answer for it");
    }
  }

  // Returns the pattern of this value alone.
  static std::string exactly(const Json& value) {
    if (!value.is_structured()) return text::escaped_pattern(value.dump());
    std::string items;
    for (const auto& [key, item] : value.items()) {
      items += items.empty() ? "" : kComma;
      if (value.is_object()) items += exactly(Json(key)) + kColon;
      items += exactly(item);
    }
    return value.is_object() ? R"(\{)" + items + R"(\})" : R"(\[)" + items + R"(\])";
  }

  MaybePattern value(const Json& schema, const std::string& where) {
    if (++depth_ > kMostDepth) refuse(where, "the schema is too deep", "make it flatter");
    MaybePattern made = value_of(schema, where);
    --depth_;
    if (made) check_size(*made);
    return made;
  }

  // Copies of a schema in a schema grow fast, so the size is checked while the pattern is written.
  static void check_size(const std::string& pattern) {
    if (pattern.size() <= text::ByteAutomaton::kMostBytes) return;
    refuse("json_schema",
           fmt::format("the schema needs a pattern of more than {} bytes",
                       text::ByteAutomaton::kMostBytes),
           "let it have fewer members that may be left out, or that contain themselves");
  }

  MaybePattern value_of(const Json& schema, const std::string& where) {
    if (!schema.is_object()) refuse(where, "a schema is an object", R"(write {"type": "string"})");
    if (schema.contains("$ref")) return reference(schema, where);
    if (schema.contains("const")) {
      check_keywords(schema, {"const", "type"}, where);
      return one_of(Json::array({schema["const"]}), schema, where);
    }
    if (schema.contains("enum")) return one_of_values(schema, where);
    for (const char* key : {"anyOf", "oneOf"}) {
      if (schema.contains(key)) return one_of_schemas(schema, key, where);
    }
    const Json type = schema.value("type", Json());
    if (type.is_string()) return of_type(schema, type.get<std::string>(), where);
    if (!type.is_array() || type.empty()) {
      refuse(where, "the schema has no type",
             "name one: string, integer, number, boolean, null, array or object");
    }
    std::vector<std::string> all;
    for (const Json& one : type) {
      if (const MaybePattern made = of_types(schema, one, where)) all.push_back(*made);
    }
    return all.empty() ? std::nullopt : MaybePattern(alternatives(all));
  }

  MaybePattern reference(const Json& schema, const std::string& where) {
    check_keywords(schema, {"$ref"}, where);
    const std::string target = schema["$ref"].is_string() ? schema["$ref"].get<std::string>() : "";
    if (target != "#" && !target.starts_with("#/"))
      refuse(where, "$ref does not begin with #/", "put the schema into $defs");
    int& levels = open_[target];
    if (levels == kMostLevels) return std::nullopt;
    ++levels;
    MaybePattern made = value(schema_at(target, where), target);
    --levels;
    return made;
  }

  const Json& schema_at(const std::string& target, const std::string& where) const {
    try {
      return root_.at(Json::json_pointer(target.substr(1)));
    } catch (const nlohmann::json::exception&) {
      refuse(where, fmt::format("there is no {}", target), "$ref names a schema of $defs");
    }
  }

  static std::string one_of_values(const Json& schema, const std::string& where) {
    check_keywords(schema, {"enum", "type"}, where);
    if (!schema["enum"].is_array() || schema["enum"].empty())
      refuse(where, "enum is not a list of values", R"(write "enum": ["a", "b"])");
    return one_of(schema["enum"], schema, where);
  }

  // Returns the pattern of the values that have a type of the schema, if it names types.
  static std::string one_of(const Json& values, const Json& schema, const std::string& where) {
    const Json type = schema.value("type", Json());
    const Json types = type.is_null() || type.is_array() ? type : Json::array({type});
    std::vector<std::string> all;
    for (const Json& one : values) {
      if (types.is_null() || is_of_types(one, types, where)) all.push_back(exactly(one));
    }
    if (all.empty())
      refuse(where, "no value of enum or const has the type", "change the type, or the values");
    return alternatives(all);
  }

  static bool is_of_types(const Json& value, const Json& types, const std::string& where) {
    bool is_one = false;
    for (const Json& type : types) is_one |= is_of_type(value, type, where);
    return is_one;
  }

  static bool is_of_type(const Json& value, const Json& type, const std::string& where) {
    if (type == "string") return value.is_string();
    if (type == "integer") return is_whole(value);
    if (type == "number") return value.is_number();
    if (type == "boolean") return value.is_boolean();
    if (type == "null") return value.is_null();
    if (type == "array") return value.is_array();
    if (type == "object") return value.is_object();
    refuse_type(type, where);
  }

  // Returns true for 3 and for 3.0, which JSON Schema counts as a whole number too.
  static bool is_whole(const Json& value) {
    return value.is_number_integer() ||
           (value.is_number_float() && std::trunc(value.get<double>()) == value.get<double>());
  }

  [[noreturn]] static void refuse_type(const Json& type, const std::string& where) {
    refuse(where, fmt::format("there is no type {}", type.dump()),
           "the types are string, integer, number, boolean, null, array and object");
  }

  MaybePattern one_of_schemas(const Json& schema, const std::string& key,
                              const std::string& where) {
    check_keywords(schema, {key}, where);
    if (!schema[key].is_array() || schema[key].empty())
      refuse(where, fmt::format("{} is not a list of schemas", key), "");
    if (key == "oneOf") check_disjoint(schema[key], where);
    std::vector<std::string> all;
    for (size_t i = 0; i < schema[key].size(); ++i) {
      const MaybePattern made = value(schema[key][i], fmt::format("{}.{}[{}]", where, key, i));
      if (made) all.push_back(*made);
    }
    return all.empty() ? std::nullopt : MaybePattern(alternatives(all));
  }

  // Fails when a value could be of two of the schemas, which oneOf forbids.
  static void check_disjoint(const Json& schemas, const std::string& where) {
    std::set<std::string> types;
    for (const Json& one : schemas) {
      const Json type = one.is_object() ? one.value("type", Json()) : Json();
      std::string name = type.is_string() ? type.get<std::string>() : "";
      if (name == "integer") name = "number"; // 1 is both
      if (name.empty() || !types.insert(name).second) {
        refuse(where, "two schemas of oneOf may have the same values",
               "use anyOf, or give each schema another type");
      }
    }
  }

  // Returns the pattern of one of several types. A keyword restricts the values of its own type.
  MaybePattern of_types(const Json& schema, const Json& type, const std::string& where) {
    if (!type.is_string()) refuse(where, "a type is not a name", "");
    const auto name = type.get<std::string>();
    Json own = Json::object();
    const auto is_of_other = [&](const std::string& key) {
      return !is_keyword_of(name, key) &&
             std::ranges::any_of(schema["type"], [&](const Json& other) {
               return other.is_string() && is_keyword_of(other.get<std::string>(), key);
             });
    };
    for (const auto& [key, content] : schema.items()) {
      if (!is_of_other(key)) own[key] = content;
    }
    return of_type(own, name, where);
  }

  MaybePattern of_type(const Json& schema, const std::string& type, const std::string& where) {
    const auto row = std::ranges::find(type_keywords(), type, &TypeKeywords::type);
    if (row == type_keywords().end()) refuse_type(type, where);
    std::vector<std::string_view> known = row->keywords;
    known.push_back("type");
    check_keywords(schema, known, where);
    if (type == "string") return text(schema, where);
    if (type == "integer") return pattern_of_numbers(schema, true, where);
    if (type == "number") return pattern_of_numbers(schema, false, where);
    if (type == "array") return array(schema, where);
    if (type == "object") return object(schema, where);
    return type == "boolean" ? "(?:true|false)" : "null";
  }

  // How often a part comes; most -1: any number of times.
  struct Times {
    int64_t least = 0, most = -1;

    bool may_be(int64_t count) const { return most < 0 || count <= most; }
    // Returns the times that are left after `count`.
    Times after(int64_t count) const {
      return {std::max<int64_t>(0, least - count),
              most < 0 ? -1 : std::max<int64_t>(0, most - count)};
    }
    std::string pattern() const {
      return most < 0 ? fmt::format("{{{},}}", least) : fmt::format("{{{},{}}}", least, most);
    }
  };

  static Times times(const Json& schema, const char* least, const char* most,
                     const std::string& where) {
    constexpr double kMost = 1e15;
    const auto number = [&](const char* key, int64_t otherwise) {
      const Json value = schema.value(key, Json());
      if (value.is_null()) return otherwise;
      if (!is_whole(value) || value.get<double>() < 0)
        refuse(where, fmt::format("{} is not a number from 0 on", key), "");
      return static_cast<int64_t>(std::min(value.get<double>(), kMost));
    };
    const Times made = {number(least, 0), number(most, -1)};
    if (!made.may_be(made.least))
      refuse(where, fmt::format("{} is above {}", least, most), "no value is of this schema");
    return made;
  }

  // Returns the pattern of texts. Each of pattern, format and the lengths may restrict them.
  static std::string text(const Json& schema, const std::string& where) {
    std::vector<std::string> all;
    if (schema.contains("pattern")) {
      if (!schema["pattern"].is_string()) refuse(where, "pattern is not a text", "");
      all.push_back(text::json_pattern(schema["pattern"].get<std::string>(), kCharacter));
    }
    if (schema.contains("format")) all.push_back(format(schema["format"], where));
    if (all.empty() || schema.contains("minLength") || schema.contains("maxLength"))
      all.push_back(kCharacter + times(schema, "minLength", "maxLength", where).pattern());
    std::string made = all.front();
    for (size_t i = 1; i < all.size(); ++i) made = fmt::format("(?&(?:{})(?:{}))", made, all[i]);
    return "\"" + group(made) + "\"";
  }

  static std::string format(const Json& name, const std::string& where) {
    const std::string made =
        name.is_string() ? pattern_of_format(name.get_ref<const std::string&>()) : "";
    if (made.empty()) {
      refuse(where, fmt::format("format {} is not supported", name.dump()),
             "use " + format_names() + ", or a pattern");
    }
    return made;
  }

  MaybePattern array(const Json& schema, const std::string& where) {
    const Times count = times(schema, "minItems", "maxItems", where);
    const Json first = schema.value("prefixItems", Json::array());
    if (!first.is_array()) refuse(where, "prefixItems is not a list of schemas", "");
    std::vector<std::string> items; // those of prefixItems that may be there
    for (size_t i = 0; i < first.size() && count.may_be(std::ssize(items) + 1); ++i) {
      const MaybePattern made = value(first[i], fmt::format("{}.prefixItems[{}]", where, i));
      if (!made) break;
      items.push_back(*made);
    }
    const int64_t given = std::ssize(items);
    const bool has_more = given == std::ssize(first) && count.may_be(given + 1);
    const MaybePattern more =
        has_more ? further_items(schema, count.after(given).least, where) : std::nullopt;
    if (!more && given < count.least) return std::nullopt;
    // From the last item to the first, each with all that may follow it.
    std::string rest;
    if (more) {
      const Times left = count.after(given);
      rest = group(kComma + *more) + left.pattern();
      if (given == 0) {
        rest = *more + group(kComma + *more) + left.after(1).pattern();
        if (left.least == 0) rest = group(rest) + "?";
      }
    }
    for (int64_t i = given - 1; i >= 0; --i) {
      rest = (i == 0 ? "" : kComma) + items[static_cast<size_t>(i)] + rest;
      if (i >= count.least) rest = group(rest) + "?";
    }
    return R"(\[)" + rest + R"(\])";
  }

  // Returns the pattern of the items after those of prefixItems; nothing: there are none. There are
  // `least` of them or more.
  MaybePattern further_items(const Json& schema, int64_t least, const std::string& where) {
    const Json items = schema.value("items", Json());
    if (items == Json(false)) {
      if (least > 0) refuse(where, "minItems is above the number of prefixItems", "lower it");
      return std::nullopt;
    }
    if (items.is_null()) {
      refuse(where, "an array needs the schema of its items",
             R"(add "items": {"type": "string"}, or "items": false after prefixItems)");
    }
    return value(items, where + ".items");
  }

  struct Member {
    std::string pattern; // of name and value
    bool is_required = false;
  };

  // Members come in the order of `properties`.
  MaybePattern object(const Json& schema, const std::string& where) {
    const Times count = times(schema, "minProperties", "maxProperties", where);
    const Json properties = schema.value("properties", Json::object());
    const Json required = schema.value("required", Json::array());
    if (!properties.is_object()) refuse(where, "properties is not an object", "");
    if (!required.is_array()) refuse(where, "required is not a list of names", "");
    if (count.least > std::ssize(properties))
      refuse(where, "minProperties is above the number of properties", "name more properties");
    if (!count.may_be(std::ssize(required)))
      refuse(where, "maxProperties is below the number of required members", "require fewer");
    std::vector<Member> members;
    bool is_left_out = false; // a required member has no value
    for (const auto& [name, own] : properties.items()) {
      const bool is_required = std::ranges::find(required, Json(name)) != required.end();
      const MaybePattern made = value(own, where + "." + name);
      if (made) members.push_back({exactly(name) + kColon + *made, is_required});
      if (!made && is_required) is_left_out = true;
    }
    for (const Json& name : required) {
      if (name.is_string() && properties.contains(name.get<std::string>())) continue;
      refuse(where, fmt::format("required names {}, which properties lacks", name.dump()),
             "add its schema to properties");
    }
    const auto fewest = std::ranges::count_if(members, &Member::is_required);
    if (is_left_out || !count.may_be(fewest) || count.least > std::ssize(members))
      return std::nullopt;
    return R"(\{)" + members_from(members, 0, true, count) + R"(\})";
  }

  // Returns the pattern of the members from `at` on. count: how many of them may be there.
  // is_first: no member comes before them.
  static std::string members_from(const std::vector<Member>& members, size_t at, bool is_first,
                                  Times count) {
    if (at == members.size()) return "";
    const std::span<const Member> left = std::span(members).subspan(at);
    const auto fewest = std::ranges::count_if(left, &Member::is_required);
    // Numbers of members that all texts have restrict nothing.
    if (count.least <= fewest) count.least = 0;
    if (count.may_be(std::ssize(left))) count.most = -1;
    const Member& member = members[at];
    const bool may_be_there = member.is_required || count.may_be(fewest + 1);
    const bool may_be_left_out = !member.is_required && count.least < std::ssize(left);
    const bool is_free = count.least == 0 && count.most < 0;
    if (!is_first && is_free) {
      const std::string own = kComma + member.pattern;
      return (member.is_required ? own : group(own) + "?") +
             members_from(members, at + 1, false, count);
    }
    std::vector<std::string> all;
    if (may_be_there) {
      all.push_back((is_first ? "" : kComma) + member.pattern +
                    members_from(members, at + 1, false, count.after(1)));
    }
    if (may_be_left_out) all.push_back(members_from(members, at + 1, is_first, count));
    std::string made = all.size() == 1 ? all.front() : alternatives(all);
    check_size(made);
    return made;
  }

  static constexpr int kMostDepth = 64;
  static constexpr int kMostLevels = 4; // of a $ref that contains itself

  const Json& root_;
  std::map<std::string, int> open_; // how often each reference is around the schema that is read
  int depth_ = 0;
};

} // namespace

// Members come in the order of the schema. Fails with invalid_argument naming the place of a
// keyword that is not supported.
ConstraintKind constraint_files::json_schema() {
  return {option_json("json_schema",
                      "The whole answer is JSON of this schema, with the members in its "
                      "order: an object of JSON Schema."),
          [](const Options& request) {
            const Json root = parse_json_option(request.str("json_schema"), "json_schema");
            return SchemaReader(root).pattern();
          }};
}

} // namespace dllm::generate
