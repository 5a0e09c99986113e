// This file converts values to JSON and back. The filter tojson writes plain JSON, as chat
// templates expect it: without HTML escapes, and with keys in their order.
#include "base/error.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/template.h"
#include "text/unicode.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace dllm::text::jinja {

namespace {

struct Style {
  std::optional<MarkedText> indent; // of one level; nothing: all on one line
  MarkedText item = MarkedText(", "), key = MarkedText(": ");
  bool sort = false, ascii = false;
};

class Writer {
public:
  Writer(Budget& budget, const Style& style) : budget_(budget), style_(style) {}

  MarkedText out;

  void write(const Value& value, int depth) {
    const Budget::Level level(budget_);
    budget_.step();
    switch (value.type()) {
    case Type::none: return put("null");
    case Type::boolean: return put(value.truth() ? "true" : "false");
    case Type::integer: return put(std::to_string(value.integer()));
    case Type::real: return put(real(value.real()));
    case Type::text: return string(value.text());
    case Type::list:
    case Type::tuple: return list(value.items(), depth);
    case Type::map: return map(value.entries(), depth);
    default: fail(Code::invalid_argument, "tojson: a {} cannot be JSON", value.type_name());
    }
  }

private:
  void put(const std::string& text) {
    budget_.grow(text.size());
    out.append(text);
  }
  void put(const MarkedText& text) {
    budget_.grow(text.footprint());
    out.append(text);
  }

  static std::string real(double value) {
    const std::string text = number_text(value);
    return text == "nan" ? "NaN" : text == "inf" ? "Infinity" : text == "-inf" ? "-Infinity" : text;
  }

  void line(int depth) {
    put("\n");
    for (int i = 0; i < depth; ++i) put(*style_.indent);
  }

  void escaped(const Char& c, std::string_view raw, Mark mark) {
    constexpr std::string_view kFrom = "\"\\\n\r\t\b\f", kTo = "\"\\nrtbf";
    const size_t known = raw.size() == 1 ? kFrom.find(raw[0]) : std::string_view::npos;
    if (known != std::string_view::npos) {
      out.append("\\", mark);
      return out.append(kTo.substr(known, 1), mark);
    }
    const bool plain = c.code >= 0x20 && (!style_.ascii || c.code < 0x7F);
    if (c.valid && plain) return out.append(raw, mark);
    const char32_t code = c.valid ? c.code : 0xFFFD;
    if (code < 0x10000) {
      return out.append(fmt::format("\\u{:04x}", static_cast<uint32_t>(code)), mark);
    }
    const uint32_t rest = static_cast<uint32_t>(code) - 0x10000;
    out.append(fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF)),
               mark);
  }

  void string(const MarkedText& text) {
    budget_.grow(text.footprint() + 2);
    budget_.step(text.size() / 16);
    const std::string_view bytes = text.bytes();
    out.append("\"");
    size_t at = 0;
    for (const MarkedText::Run& run : text.runs()) {
      while (at < run.end) {
        const Char c = char_at(bytes, at);
        const auto size = static_cast<size_t>(c.size);
        escaped(c, bytes.substr(at, size), run.mark);
        at += size;
      }
    }
    out.append("\"");
  }

  void list(const Items& items, int depth) {
    put("[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) put(style_.item);
      if (style_.indent) line(depth + 1);
      write(items[i], depth + 1);
    }
    if (style_.indent && !items.empty()) line(depth);
    put("]");
  }

  // Writes the name of a member. Numbers and None become texts.
  void name(const Value& key) {
    if (key.is_text()) return string(key.text());
    if (!key.is_number() && !key.is_none()) {
      fail(Code::invalid_argument, "tojson: a {} cannot be the name of a member", key.type_name());
    }
    put("\"");
    write(key, 0);
    put("\"");
  }

  void map(const Entries& entries, int depth) {
    std::vector<const Entries::value_type*> order;
    for (const auto& entry : entries) order.push_back(&entry);
    if (style_.sort) {
      std::stable_sort(order.begin(), order.end(), [this](const auto* a, const auto* b) {
        return compare(budget_, a->first, b->first) < 0;
      });
    }
    put("{");
    for (size_t i = 0; i < order.size(); ++i) {
      if (i > 0) put(style_.item);
      if (style_.indent) line(depth + 1);
      name(order[i]->first);
      put(style_.key);
      write(order[i]->second, depth + 1);
    }
    if (style_.indent && !entries.empty()) line(depth);
    put("}");
  }

  Budget& budget_;
  const Style& style_;
};

Style read_style(Budget& budget, Arguments& arguments) {
  Style style;
  // In the order of the function that chat templates are written for.
  const Value* ascii = arguments.take(SIZE_MAX, "ensure_ascii");
  const Value* indent = arguments.take(0, "indent");
  const Value* separators = arguments.take(SIZE_MAX, "separators");
  const Value* sort = arguments.take(SIZE_MAX, "sort_keys");
  style.ascii = ascii != nullptr && ascii->truth();
  style.sort = sort != nullptr && sort->truth();
  if (indent != nullptr && !indent->is_none()) {
    style.item = MarkedText(",");
    if (indent->is_text()) {
      style.indent = indent->text();
    } else {
      const int64_t width = std::max<int64_t>(need_integer(*indent, "indent"), 0);
      budget.grow(static_cast<size_t>(width));
      style.indent = MarkedText(std::string(static_cast<size_t>(width), ' '));
    }
  }
  if (separators != nullptr && !separators->is_none()) {
    const bool pair = separators->is_sequence() && separators->items().size() == 2;
    if (!pair) fail(Code::invalid_argument, "tojson: separators must be two strings");
    style.item = need_text(separators->items()[0], "a separator");
    style.key = need_text(separators->items()[1], "a separator");
  }
  return style;
}

} // namespace

MarkedText to_json(Budget& budget, const Value& value, Arguments& arguments) {
  const Style style = read_style(budget, arguments);
  Writer writer(budget, style);
  writer.write(value, 0);
  return std::move(writer.out);
}

Value from_json(const Json& json, Mark mark) {
  switch (json.type()) {
  case Json::value_t::boolean: return Value(json.get<bool>());
  case Json::value_t::number_integer: return Value(json.get<int64_t>());
  case Json::value_t::number_unsigned: {
    const auto value = json.get<uint64_t>();
    return value > INT64_MAX ? Value(static_cast<double>(value))
                             : Value(static_cast<int64_t>(value));
  }
  case Json::value_t::number_float: return Value(json.get<double>());
  case Json::value_t::string: return Value(MarkedText(json.get<std::string>(), mark));
  case Json::value_t::array: {
    Items items;
    for (const Json& item : json) items.push_back(from_json(item, mark));
    return Value::list(std::move(items));
  }
  case Json::value_t::object: {
    Entries entries;
    for (const auto& [key, value] : json.items()) {
      entries.emplace_back(Value(MarkedText(key, mark)), from_json(value, mark));
    }
    return Value::map(std::move(entries));
  }
  default: return Value::none();
  }
}

Value from_messages(const Json& messages) {
  if (!messages.is_array()) {
    fail(Code::invalid_argument, "messages must be a list, found {}", messages.type_name());
  }
  Items items;
  for (const Json& message : messages) {
    const auto index = static_cast<int32_t>(items.size());
    const auto role = message.is_object() ? message.find("role") : message.end();
    if (!message.is_object() || role == message.end() || !role->is_string()) {
      fail_with_hint("write a message as {\"role\": \"user\", \"content\": \"...\"}",
                     Code::invalid_argument, "message {} has no role", index);
    }
    Entries entries;
    for (const auto& [key, value] : message.items()) {
      const Mark mark{key == "role" ? Mark::kData : index, false};
      // Names of members have no role and are not trusted.
      entries.emplace_back(Value(MarkedText(key, {Mark::kData, false})), from_json(value, mark));
    }
    items.push_back(Value::map(std::move(entries)));
  }
  return Value::list(std::move(items));
}

} // namespace dllm::text::jinja
