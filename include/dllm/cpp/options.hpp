#ifndef DLLM_CPP_OPTIONS_HPP
#define DLLM_CPP_OPTIONS_HPP
// The class for options of a kind, and short forms of options as arguments.
#include "dllm/cpp/handle.hpp"

#include <charconv>
#include <concepts>
#include <initializer_list>
#include <span>

namespace dllm {
inline namespace api {

// The value of one key: a yes or no, a number, a text, or a list of numbers or texts.
class Value {
public:
  Value(bool value) : content_(static_cast<int64_t>(value)) {}
  template <std::integral T> Value(T value) : content_(static_cast<int64_t>(value)) {}
  template <std::floating_point T> Value(T value) : content_(static_cast<double>(value)) {}
  Value(const char* value) : content_(std::string(value)) {}
  Value(std::string_view value) : content_(std::string(value)) {}
  Value(std::string value) : content_(std::move(value)) {}
  // Lists are for keys such as "stop" and "outputs".
  template <std::integral T> Value(std::span<const T> list) : content_(List{numbers(list), {}}) {}
  template <std::integral T> Value(const std::vector<T>& list) : Value(std::span<const T>(list)) {}
  Value(const std::vector<std::string>& list) : content_(List{texts(list), fault_of(list)}) {}

  void set(dllm_options* options, const char* key, dllm_error* err, dllm_status* status) const {
    if (const auto* whole = std::get_if<int64_t>(&content_))
      *status = dllm_options_set_i64(options, key, *whole, err);
    if (const auto* real = std::get_if<double>(&content_))
      *status = dllm_options_set_f64(options, key, *real, err);
    if (const auto* text = std::get_if<std::string>(&content_)) {
      const bool has_zero = text->find('\0') != std::string::npos; // ends a text of C
      const std::string json = has_zero ? "{" + quoted(key) + ":" + quoted(*text) + "}" : "";
      *status = has_zero ? dllm_options_set_json(options, json.data(), size_of(json.size()), err)
                         : dllm_options_set_str(options, key, text->c_str(), err);
    }
    if (const auto* list = std::get_if<List>(&content_)) {
      if (!list->fault.empty()) raise(Error(DLLM_INVALID_ARGUMENT, key + (", " + list->fault)));
      const std::string json = "{" + quoted(key) + ":" + list->json + "}";
      *status = dllm_options_set_json(options, json.data(), size_of(json.size()), err);
    }
  }

  // Returns the text, or nothing when the value is not a text.
  std::optional<std::string> text() const {
    const auto* held = std::get_if<std::string>(&content_);
    return held == nullptr ? std::nullopt : std::optional<std::string>(*held);
  }

  // Returns the whole number, or nothing when the value is not a whole number.
  std::optional<int64_t> whole() const {
    const auto* held = std::get_if<int64_t>(&content_);
    return held == nullptr ? std::nullopt : std::optional<int64_t>(*held);
  }

  // Returns the text as a JSON string.
  static std::string quoted(std::string_view text) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string out = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      if (static_cast<unsigned char>(c) >= 0x20) {
        out += c;
      } else {
        out += "\\u00";
        out += digits[static_cast<unsigned char>(c) >> 4];
        out += digits[static_cast<unsigned char>(c) & 15];
      }
    }
    return out + '"';
  }

private:
  struct List {
    std::string json;
    std::string fault; // what JSON cannot hold; empty: there is nothing
  };
  template <std::integral T> static std::string numbers(std::span<const T> list) {
    std::string json = "[";
    for (const T value : list) json += (json.size() > 1 ? "," : "") + std::to_string(value);
    return json + "]";
  }
  static std::string texts(const std::vector<std::string>& list) {
    std::string json = "[";
    for (const std::string& value : list) json += (json.size() > 1 ? "," : "") + quoted(value);
    return json + "]";
  }

  static std::string fault_of(const std::vector<std::string>& list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (const std::size_t at = not_utf8(list[i]); at != 0) {
        return "item " + std::to_string(i + 1) + ": not UTF-8 at character " + std::to_string(at);
      }
    }
    return {};
  }
  // Returns the number of the first character that is not UTF-8, counted from 1, or 0 for none.
  static std::size_t not_utf8(std::string_view text) {
    std::size_t count = 1;
    for (std::size_t size = 0; !text.empty(); text.remove_prefix(size), ++count) {
      size = size_of_character(text);
      if (size == 0) return count;
    }
    return 0;
  }
  // Returns the bytes of the character that a text begins with, or 0 when it is not UTF-8.
  static std::size_t size_of_character(std::string_view text) {
    const auto byte = [&](std::size_t i) {
      return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
    };
    const unsigned first = byte(0), second = byte(1);
    if (first < 0x80) return 1;
    if (first < 0xc2 || first > 0xf4) return 0;
    // The second byte has other limits after these first bytes, which exclude longer forms and
    // surrogates.
    const unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (second < low || second > high) return 0;
    const std::size_t size = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    for (std::size_t i = 2; i < size; ++i) {
      if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
    }
    return size;
  }

  std::variant<int64_t, double, std::string, List> content_;
};

// A key and its value, such as {"steps", 64}.
struct Setting {
  std::string key;
  Value value;
};

// Typed keys and values of one kind, checked when they are set.
class Options : public Handle<dllm_options> {
public:
  explicit Options(std::string_view kind)
      : Handle(make<dllm_options>([&](dllm_options** out, dllm_error* err) {
          return dllm_options_new(zero_ended(kind).c_str(), out, err);
        })) {}
  Options(std::string_view kind, std::initializer_list<Setting> settings) : Options(kind) {
    for (const Setting& setting : settings) set(setting.key, setting.value);
  }
  Options(std::string_view kind, std::string_view json) : Options(kind) { set_json(json); }

  Options& set(std::string_view key, const Value& value) {
    call([&](dllm_error* err) {
      dllm_status status = DLLM_OK;
      value.set(get(), zero_ended(key).c_str(), err, &status);
      return status;
    });
    return *this;
  }
  // Sets all keys of a JSON object. When one key is wrong, none is set.
  Options& set_json(std::string_view json) {
    const std::string text(json);
    call([&](dllm_error* err) {
      return dllm_options_set_json(get(), text.c_str(), size_of(text.size()), err);
    });
    return *this;
  }
  // Returns the effective values of every key, defaults included, as JSON.
  std::string to_json() const {
    return text(
        [&](dllm_buffer* out, dllm_error* err) { return dllm_options_to_json(get(), out, err); });
  }
  // Returns the keys of a kind with type, default, range, choices and a sentence, as JSON.
  static std::string schema(std::string_view kind) {
    return text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_options_schema(zero_ended(kind).c_str(), out, err);
    });
  }
};

// The options argument of calls. It takes nothing, {{"steps", 64}, ...}, a JSON text, or an Options
// object. The Options object is not copied.
class Settings {
public:
  Settings() = default;
  Settings(std::initializer_list<Setting> settings) : given_(std::vector<Setting>(settings)) {}
  Settings(const char* json) : given_(std::string(json)) {}
  Settings(std::string_view json) : given_(std::string(json)) {}
  Settings(const std::string& json) : given_(json) {}
  Settings(const Options& options) : given_(handle_of(&options)) {}

  // Calls f with the handle of the options, or with NULL when nothing was given.
  template <class F> decltype(auto) with(std::string_view kind, F&& f) const {
    if (const auto* borrowed = std::get_if<dllm_options*>(&given_))
      return f(static_cast<const dllm_options*>(*borrowed));
    if (std::holds_alternative<std::monostate>(given_))
      return f(static_cast<const dllm_options*>(nullptr));
    Options made(kind);
    if (const auto* json = std::get_if<std::string>(&given_)) made.set_json(*json);
    if (const auto* list = std::get_if<std::vector<Setting>>(&given_)) {
      for (const Setting& setting : *list) made.set(setting.key, setting.value);
    }
    return f(static_cast<const dllm_options*>(made.get()));
  }

private:
  std::variant<std::monostate, std::vector<Setting>, std::string, dllm_options*> given_;
};

} // namespace api
} // namespace dllm
#endif
