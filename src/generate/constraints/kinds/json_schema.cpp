// The text is JSON of a schema (JSON Schema 2020-12). A schema becomes a pattern. A part that
// contains itself is written out to a depth, and deeper values are left out. Keywords that restrict
// a value and have no pattern are refused, so that a text never breaks its schema.

#include "base/error.h"
#include "base/json.h"
#include "generate/constraints/constraint_kinds.h"
#include "generate/constraints/json_formats.h"
#include "generate/constraints/json_keywords.h"
#include "generate/constraints/json_members.h"
#include "generate/constraints/json_merge.h"
#include "generate/constraints/json_numbers.h"
#include "generate/constraints/json_refs.h"
#include "generate/constraints/json_text.h"
#include "text/automaton/byte_automaton.h"
#include "text/automaton/json_pattern.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm::generate {
namespace {

std::string alternatives(const std::vector<std::string>& patterns) {
  std::string made;
  for (const std::string& pattern : patterns) made += (made.empty() ? "" : "|") + pattern;
  return grouped(made);
}

// The pattern of the values of a schema; nothing: there are none, or none is so flat that
// kMostLevels levels of parts that contain themselves are enough.
using MaybePattern = std::optional<std::string>;

class SchemaReader {
public:
  explicit SchemaReader(const Json& root) : root_(root) {}

  std::string pattern() {
    MaybePattern made = value(root_, "json_schema");
    if (made) return *made;
    if (!is_cut_) refuse("json_schema", "no value is of this schema", "let one of its parts go");
    refuse(
        "json_schema",
        fmt::format("no value has at most {} levels of a $ref that contains itself", kMostLevels),
        "let a level end, for example by anyOf with null");
  }

private:
  [[noreturn]] static void refuse(const std::string& where, const std::string& what,
                                  const std::string& hint) {
    fail_with_hint(hint, Code::invalid_argument, "{}: {}", where, what);
  }

  // Counts the levels of schemas in schemas while it lives.
  class Level {
  public:
    Level(int& depth, const std::string& where) : depth_(depth) {
      if (++depth_ > kMostDepth) refuse(where, "the schema is too deep", "make it flatter");
    }
    ~Level() { --depth_; }

  private:
    int& depth_;
  };

  MaybePattern value(const Json& schema, const std::string& where) {
    const Level level(depth_, where);
    if (++parts_ > kMostParts) {
      refuse("json_schema",
             fmt::format("the schema is written out to more than {} parts", kMostParts),
             "let it have fewer members that contain themselves");
    }
    MaybePattern made = value_of(schema, where);
    // Copies of a schema in a schema grow fast, so sizes are checked while it is written.
    if (made) check_pattern_size(*made);
    return made;
  }

  MaybePattern value_of(const Json& schema, const std::string& where) {
    if (schema == Json(true)) return any_json(kMostFreeLevels);
    if (schema == Json(false)) return std::nullopt;
    check_is_schema(schema, where);
    const bool is_plain = !schema.contains("allOf") && !has_unevaluated(schema);
    if (!schema.contains("$ref")) return is_plain ? plain(schema, where) : merged(schema, where);
    const bool is_alone = std::ranges::all_of(schema.items(), [](const auto& row) {
      return row.key() == "$ref" || is_annotation(row.key());
    });
    return is_alone ? reference(schema, where) : merged(schema, where);
  }

  MaybePattern reference(const Json& schema, const std::string& where) {
    const std::string target = target_of_ref(schema, where);
    int& levels = open_[target];
    if (levels == kMostLevels) {
      is_cut_ = true;
      return std::nullopt;
    }
    ++levels;
    MaybePattern made = value(schema_at(root_, target, where), target);
    --levels;
    return made;
  }

  static void check_is_schema(const Json& schema, const std::string& where) {
    if (!schema.is_object() && !schema.is_boolean())
      refuse(where, "a schema is an object", R"(write {"type": "string"})");
  }

  static bool has_unevaluated(const Json& schema) {
    return schema.contains("unevaluatedItems") || schema.contains("unevaluatedProperties");
  }
  static bool has_alternatives(const Json& schema) {
    return schema.contains("anyOf") || schema.contains("oneOf");
  }

  // Returns the pattern of a schema with $ref, allOf or unevaluated items or members.
  MaybePattern merged(const Json& schema, const std::string& where) {
    std::vector<std::string> targets;
    const std::optional<Json> flat = flattened(schema, where, &targets);
    if (!flat) return std::nullopt;
    for (const std::string& target : targets) ++open_[target];
    MaybePattern made = plain(*flat, targets.empty() ? where : targets.front());
    for (const std::string& target : targets) --open_[target];
    return made;
  }

  // Returns the schema without $ref and allOf; nothing: it has no value. targets: takes the
  // targets of $ref, whose levels are then counted; null: no level is counted.
  std::optional<Json> flattened(const Json& schema, const std::string& where,
                                std::vector<std::string>* targets) {
    const Level level(depth_, where);
    check_is_schema(schema, where);
    if (schema.is_boolean())
      return schema == Json(true) ? std::optional(Json::object()) : std::nullopt;
    Json own = schema;
    for (const char* key : {"$ref", "allOf", "unevaluatedItems", "unevaluatedProperties"})
      own.erase(key);
    std::vector<std::optional<Json>> parts;
    if (schema.contains("$ref")) parts.push_back(target_of(schema, where, targets));
    const Json all = schema.value("allOf", Json::array());
    if (!all.is_array()) refuse(where, "allOf is not a list of schemas", "write a list");
    for (const Json& one : all) parts.push_back(flattened(one, where, targets));
    parts.emplace_back(own);
    std::optional<Json> made = Json::object();
    for (const std::optional<Json>& part : parts) {
      if (!part) return std::nullopt;
      if (has_unevaluated(*part)) {
        refuse(where, "unevaluated items or members next to anyOf are not supported in allOf",
               "write them next to allOf");
      }
      made = merged_schemas(*made, *part, where);
      if (!made) return std::nullopt;
    }
    const Json rests = unevaluated_of(schema);
    for (const auto& [key, unevaluated] : rests.items()) {
      const char* rest = key == "unevaluatedItems" ? "items" : "additionalProperties";
      // The schemas of anyOf name more members, so these wait for one of them.
      if (has_alternatives(*made))
        (*made)[key] = unevaluated;
      else if (!made->contains(rest))
        (*made)[rest] = unevaluated;
    }
    return made;
  }

  static Json unevaluated_of(const Json& schema) {
    Json made = Json::object();
    for (const char* key : {"unevaluatedItems", "unevaluatedProperties"}) {
      if (schema.contains(key)) made[key] = schema[key];
    }
    return made;
  }

  std::optional<Json> target_of(const Json& schema, const std::string& where,
                                std::vector<std::string>* targets) {
    const std::string target = target_of_ref(schema, where);
    if (targets != nullptr) {
      if (open_[target] + std::ranges::count(*targets, target) >= kMostLevels) {
        is_cut_ = true;
        return std::nullopt;
      }
      targets->push_back(target);
    }
    return flattened(schema_at(root_, target, where), target, targets);
  }

  // Returns the pattern of a schema without $ref and allOf.
  MaybePattern plain(const Json& schema, const std::string& where) {
    if (schema.contains("const") || schema.contains("enum")) return one_of_values(schema, where);
    for (const char* key : {"anyOf", "oneOf"}) {
      if (schema.contains(key)) return one_of_schemas(schema, key, where);
    }
    if (schema.contains("type")) {
      if (schema["type"].is_string()) return of_type(schema, schema["type"], where);
      if (!schema["type"].is_array() || schema["type"].empty()) {
        refuse(where, "type is not a name or a list of names",
               "the types are string, integer, number, boolean, null, array and object");
      }
      return of_types(schema, schema["type"], where);
    }
    // Keywords of a type are meant for values of this type, so other values are not written.
    Json types = Json::array();
    for (const std::string& type : written_types(schema)) types.push_back(type);
    if (!types.empty()) return of_types(schema, types, where);
    check_keywords(schema, {}, where);
    return any_json(kMostFreeLevels);
  }

  MaybePattern one_of_values(const Json& schema, const std::string& where) {
    const Json list = schema.value("enum", Json::array({schema.value("const", Json())}));
    if (!list.is_array() || list.empty())
      refuse(where, "enum is not a list of values", R"(write "enum": ["a", "b"])");
    const Json type = schema.value("type", Json());
    const Json types = type.is_null() || type.is_array() ? type : Json::array({type});
    std::vector<std::string> all;
    Json rest = schema;
    for (const char* key : {"const", "enum", "type"}) rest.erase(key);
    Json own = Json::array(); // the types of the values
    for (const Json& one : list) {
      if (schema.contains("const") && !is_same_value(one, schema["const"])) continue;
      if (!types.is_null() && !is_of_types(one, types, where)) continue;
      all.push_back(exact_json(one));
      own.push_back(written_types({{"const", one}}).front());
    }
    if (all.empty())
      refuse(where, "no value of enum or const has the type", "change the type, or the values");
    const bool is_alone =
        std::ranges::all_of(rest.items(), [](const auto& row) { return is_annotation(row.key()); });
    if (is_alone) return alternatives(all);
    rest["type"] = types.is_null() ? own : types;
    const MaybePattern others = value(rest, where);
    if (!others) return std::nullopt;
    return fmt::format("(?&{}{})", alternatives(all), grouped(*others));
  }

  static bool is_of_types(const Json& value, const Json& types, const std::string& where) {
    bool is_one = false;
    for (const Json& type : types) {
      const std::string name = type.is_string() ? type.get<std::string>() : "";
      if (keywords_of_type(name) == nullptr) refuse_type(type, where);
      is_one |= is_of_type(value, name);
    }
    return is_one;
  }

  [[noreturn]] static void refuse_type(const Json& type, const std::string& where) {
    refuse(where, fmt::format("there is no type {}", type.dump()),
           "the types are string, integer, number, boolean, null, array and object");
  }

  // Keywords next to anyOf or oneOf hold for each of its schemas.
  MaybePattern one_of_schemas(const Json& schema, const std::string& key,
                              const std::string& where) {
    const Json& list = schema[key];
    if (!list.is_array() || list.empty())
      refuse(where, fmt::format("{} is not a list of schemas", key), "write a list");
    Json rest = Json::object();
    for (const auto& [name, content] : schema.items()) {
      const bool is_common = name != key && name != "unevaluatedItems" &&
                             name != "unevaluatedProperties" && !is_annotation(name);
      if (is_common) rest[name] = content;
    }
    const Apart apart = key == "oneOf" ? apart_by(list, rest, where) : Apart();
    const Json outer = unevaluated_of(schema);
    std::vector<std::string> all;
    for (size_t i = 0; i < list.size(); ++i) {
      Json one = list[i], common = rest;
      if (std::ranges::find(apart.objects, i) != apart.objects.end())
        common["required"] = with_name(rest.value("required", Json()), apart.member);
      if (!common.empty() || !outer.empty()) {
        one = outer;
        one["allOf"] = common.empty() ? Json::array({list[i]}) : Json::array({common, list[i]});
      }
      const MaybePattern made = value(one, fmt::format("{}.{}[{}]", where, key, i));
      if (made) all.push_back(*made);
    }
    return all.empty() ? std::nullopt : MaybePattern(alternatives(all));
  }

  static Json with_name(const Json& required, const std::string& name) {
    Json made = required.is_array() ? required : Json::array();
    if (std::ranges::find(made, Json(name)) == made.end()) made.push_back(name);
    return made;
  }

  // What keeps the schemas of oneOf apart: their types, or a member that these objects must have.
  struct Apart {
    std::string member;
    std::vector<size_t> objects;
  };

  // Fails when a value could be of two of the schemas, which oneOf forbids.
  Apart apart_by(const Json& list, const Json& rest, const std::string& where) {
    std::vector<Json> views;
    std::vector<size_t> objects;
    for (size_t i = 0; i < list.size(); ++i) {
      const Json type = {{"type", rest.value("type", Json())}};
      const Json own =
          type["type"].is_null() ? list[i] : Json{{"allOf", Json::array({list[i], type})}};
      const std::optional<Json> view = flattened(own, where, nullptr);
      if (!view) continue;
      views.push_back(*view);
      if (written_types(*view) == std::vector<std::string>{"object"}) objects.push_back(i);
    }
    const std::optional<std::string> member = member_that_differs(views);
    if (!member) {
      refuse(where, "two schemas of oneOf may have the same values",
             "use anyOf, or give each schema another type or another const of one member");
    }
    return member->empty() ? Apart() : Apart{*member, objects};
  }

  // Returns the pattern of one of several types. A keyword restricts the values of its own type.
  MaybePattern of_types(const Json& schema, const Json& types, const std::string& where) {
    std::vector<std::string> all;
    const auto has_keyword = [](const Json& type, const std::string& key) {
      const auto* keywords =
          keywords_of_type(type.is_string() ? type.get_ref<const std::string&>() : "");
      return keywords != nullptr && std::ranges::find(*keywords, key) != keywords->end();
    };
    for (const Json& type : types) {
      if (!type.is_string()) refuse(where, "a type is not a name", "write \"string\"");
      Json own = Json::object();
      for (const auto& [key, content] : schema.items()) {
        const bool is_of_other =
            !has_keyword(type, key) &&
            std::ranges::any_of(types, [&key = key, &has_keyword](const Json& other) {
              return has_keyword(other, key);
            });
        if (!is_of_other) own[key] = content;
      }
      const MaybePattern made = of_type(own, type.get<std::string>(), where);
      if (made) all.push_back(*made);
    }
    return all.empty() ? std::nullopt : MaybePattern(alternatives(all));
  }

  MaybePattern of_type(const Json& schema, const std::string& type, const std::string& where) {
    const auto* keywords = keywords_of_type(type);
    if (keywords == nullptr) refuse_type(type, where);
    std::vector<std::string_view> known = *keywords;
    known.emplace_back("type");
    check_keywords(schema, known, where);
    if (type == "string") return text(schema, where);
    if (type == "integer") return pattern_of_numbers(schema, true, where);
    if (type == "number") return pattern_of_numbers(schema, false, where);
    if (type == "array") return array(schema, where);
    if (type == "object") return object(schema, where);
    return type == "boolean" ? "(?:true|false)" : "null";
  }

  static Times times(const Json& schema, const char* least, const char* most,
                     const std::string& where) {
    constexpr double kMost = 1e15;
    const auto number = [&](const char* key, int64_t otherwise) {
      const Json value = schema.value(key, Json());
      if (value.is_null()) return otherwise;
      if (!is_of_type(value, "integer") || value.get<double>() < 0)
        refuse(where, fmt::format("{} is not a number from 0 on", key), "write 0 or more");
      return static_cast<int64_t>(std::min(value.get<double>(), kMost));
    };
    const Times made = {number(least, 0), number(most, -1)};
    if (!made.may_be(made.least))
      refuse(where, fmt::format("{} is above {}", least, most), "no value is of this schema");
    return made;
  }

  // Returns the pattern of texts. Each of pattern, format and the lengths may restrict them.
  std::string text(const Json& schema, const std::string& where) const {
    std::vector<std::string> all;
    if (schema.contains("pattern")) {
      if (!schema["pattern"].is_string()) refuse(where, "pattern is not a text", "write one");
      all.push_back(text::json_pattern(schema["pattern"].get<std::string>(), character_));
    }
    if (schema.contains("format")) all.push_back(format(schema["format"], where));
    if (all.empty() || schema.contains("minLength") || schema.contains("maxLength"))
      all.push_back(character_ + times(schema, "minLength", "maxLength", where).pattern());
    std::string made = all.front();
    for (size_t i = 1; i < all.size(); ++i) made = fmt::format("(?&(?:{})(?:{}))", made, all[i]);
    return "\"" + grouped(made) + "\"";
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
    if (!first.is_array()) refuse(where, "prefixItems is not a list of schemas", "write a list");
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
    return R"(\[)" + pattern_of_items(items, more.value_or(""), count) + R"(\])";
  }

  // Returns the pattern of the items after those of prefixItems; nothing: there are none. There are
  // `least` of them or more. Without a schema they are of any kind, and are left out if they may.
  MaybePattern further_items(const Json& schema, int64_t least, const std::string& where) {
    const Json items = schema.value("items", Json());
    if (items == Json(false) && least > 0)
      refuse(where, "minItems is above the number of prefixItems", "lower it");
    if (!items.is_null()) return value(items, where + ".items");
    return schema.contains("prefixItems") && least == 0 ? std::nullopt
                                                        : value(Json(true), where + ".items");
  }

  // What an object says of members that `properties` does not name.
  struct FreeMembers {
    Json additional;            // the schema of members without another one; false: there are none
    std::string matched;        // patternProperties: the pattern of names, "": none
    Json of_matched;            // and the schema of their values
    bool has_name_rule = false; // propertyNames
    MaybePattern names;         // and the pattern of names
  };

  static bool matches_name(const std::string& pattern, const std::string& name) {
    return text::ByteAutomaton(pattern).matches(Json(name).dump());
  }

  FreeMembers free_members(const Json& schema, const std::string& where) {
    FreeMembers made;
    const Json patterns = schema.value("patternProperties", Json::object());
    if (!patterns.is_object() || patterns.size() > 1) {
      refuse(where, "patternProperties is not an object of one pattern",
             "leave the others out, and check the answer for them");
    }
    for (const auto& [pattern, own] : patterns.items()) {
      made.matched = "\"" + text::json_pattern(pattern, kJsonNameCharacter) + "\"";
      made.of_matched = own;
    }
    // Members that are neither named nor described are written only without `properties`. A
    // function without arguments has an empty one.
    const bool is_open = !schema.contains("properties") && patterns.empty();
    made.additional = schema.value("additionalProperties", Json(is_open));
    made.has_name_rule = schema.contains("propertyNames");
    if (made.has_name_rule) {
      const Json own = {{"allOf", Json::array({{{"type", "string"}}, schema["propertyNames"]})}};
      const std::string before = std::exchange(character_, kJsonNameCharacter);
      made.names = value(own, where + ".propertyNames");
      character_ = before;
    }
    return made;
  }

  // Returns the pattern of a free member; "": there are none. taken: the names of other members.
  std::string free_member(const FreeMembers& free, const std::vector<std::string>& taken,
                          const std::string& where) {
    if (free.has_name_rule && !free.names) return "";
    std::vector<std::string> all;
    const auto add = [&](const std::string& names, const std::vector<std::string>& others,
                         const MaybePattern& own) {
      if (!own) return;
      std::string key = names;
      if (free.has_name_rule) key = fmt::format("(?&{}{})", grouped(key), grouped(*free.names));
      if (!others.empty()) key = fmt::format("(?&!{}{})", grouped(key), alternatives(others));
      all.push_back(key + kJsonColon + grouped(*own));
    };
    const bool has_pattern = !free.matched.empty();
    if (has_pattern) add(free.matched, taken, value(free.of_matched, where + ".patternProperties"));
    // Programs agree about characters of ASCII, so no such name matches for another program.
    const char* character = has_pattern ? kJsonPlainCharacter : kJsonNameCharacter;
    std::vector<std::string> others = taken;
    if (has_pattern) others.push_back(free.matched);
    if (free.additional != Json(false)) {
      add(fmt::format("\"{}*\"", character), others,
          value(free.additional, where + ".additionalProperties"));
    }
    return all.empty() ? "" : alternatives(all);
  }

  // Returns the schema of a member by its name, with what patternProperties says of it.
  static Json member_schema(const Json& own, const FreeMembers& free, const std::string& name) {
    const bool is_plain = std::ranges::all_of(name, [](char c) { return c >= ' ' && c <= '~'; });
    const bool is_matched =
        !free.matched.empty() && (!is_plain || matches_name(free.matched, name));
    if (!is_matched) return own;
    return own.is_null() ? free.of_matched : Json{{"allOf", Json::array({own, free.of_matched})}};
  }

  // Members come in the order of `properties`, before free ones.
  MaybePattern object(const Json& schema, const std::string& where) {
    const Times count = times(schema, "minProperties", "maxProperties", where);
    const Json properties = schema.value("properties", Json::object());
    const Json required = schema.value("required", Json::array());
    if (!properties.is_object()) refuse(where, "properties is not an object", "write one");
    if (!required.is_array()) refuse(where, "required is not a list of names", "write a list");
    if (!count.may_be(std::ssize(required)))
      refuse(where, "maxProperties is below the number of required members", "require fewer");
    const FreeMembers free = free_members(schema, where);
    std::vector<JsonMember> members;
    std::vector<std::string> names;
    bool is_left_out = false; // a required member has no value
    const auto add = [&](const std::string& name, const Json& own, bool is_required) {
      names.push_back(exact_json(Json(name)));
      const bool has_name = !free.has_name_rule || (free.names && matches_name(*free.names, name));
      const MaybePattern made =
          has_name ? value(member_schema(own, free, name), where + "." + name) : std::nullopt;
      if (made) members.push_back({names.back() + kJsonColon + *made, is_required});
      if (!made && is_required) is_left_out = true;
    };
    for (const auto& [name, own] : properties.items())
      add(name, own, std::ranges::find(required, Json(name)) != required.end());
    for (const Json& name : required) {
      if (name.is_string() && properties.contains(name.get<std::string>())) continue;
      const Json own = name.is_string() ? member_schema(Json(), free, name) : Json();
      if (!name.is_string() || (own.is_null() && free.additional == Json(false))) {
        refuse(where, fmt::format("required names {}, which properties lacks", name.dump()),
               "add its schema to properties");
      }
      add(name.get<std::string>(), own.is_null() ? free.additional : Json(true), true);
    }
    const std::string more = free_member(free, names, where);
    check_count(count, members, more, where);
    const auto fewest = std::ranges::count_if(members, &JsonMember::is_required);
    const int64_t most = std::ssize(members) + (more.empty() ? 0 : 1);
    if (is_left_out || !count.may_be(fewest) || count.least > most) return std::nullopt;
    return R"(\{)" + pattern_of_members(members, more, count) + R"(\})";
  }

  // Fails for a number of members that texts cannot be sure to have.
  static void check_count(Times count, const std::vector<JsonMember>& members,
                          const std::string& more, const std::string& where) {
    if (count.least <= std::ssize(members) + (more.empty() ? 0 : 1)) return;
    if (more.empty())
      refuse(where, "minProperties is above the number of properties", "name more properties");
    refuse(where,
           fmt::format("minProperties {} counts several members without a name in properties, and "
                       "two of them may have one name",
                       count.least),
           "name more properties");
  }

  static constexpr int kMostDepth = 64;
  static constexpr int kMostLevels = 4; // of a $ref that contains itself
  static constexpr int kMostParts = 1 << 15;

  const Json& root_;
  std::string character_ = kJsonCharacter; // the pattern of a character of a text
  std::map<std::string, int> open_; // how often each reference is around the schema that is read
  bool is_cut_ = false;             // a reference had too many levels
  int depth_ = 0, parts_ = 0;
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
