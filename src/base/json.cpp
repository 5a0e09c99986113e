#include "base/json.h"

#include "base/error.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <unordered_set>

namespace dllm {
namespace {

constexpr size_t kMaxDepth = 64;

// Builds the document in place of nlohmann's tree builder. That builder searches an object's keys
// one by one, which is quadratic (a vocabulary has 150,000 keys), and lets the last of repeated
// keys win.
class TreeBuilder final : public nlohmann::json_sax<Json> {
public:
  explicit TreeBuilder(std::string_view what) : what_(what) {}

  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& value) override { return add(std::move(value)); }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    Frame& frame = open_.back();
    if (repeated(frame, name)) fail(Code::data_loss, "{} holds the key \"{}\" twice", what_, name);
    using Members = Json::object_t::Container;
    auto& members = static_cast<Members&>(frame.node->get_ref<Json::object_t&>());
    members.emplace_back(std::move(name), Json());
    frame.slot = &members.back().second;
    return true;
  }

  bool parse_error(size_t byte, const std::string&, const nlohmann::json::exception& e) override {
    // Error 101 is a syntax error, error 406 a number too large for a double.
    if (e.id == 101) fail(Code::data_loss, "{} is not valid JSON near byte {}", what_, byte);
    fail(Code::data_loss, "{} holds a number that is too large near byte {}", what_, byte);
  }

private:
  struct Frame {
    Json* node = nullptr; // the open object or array
    Json* slot = nullptr; // receives the value of the last key
    std::unordered_set<std::string> seen;
  };

  // Small objects are searched key by key, large ones through a set.
  static bool repeated(Frame& frame, const std::string& name) {
    constexpr size_t kFew = 16;
    const auto& members = frame.node->get_ref<const Json::object_t&>();
    if (members.size() < kFew) {
      return std::any_of(members.begin(), members.end(),
                         [&](const auto& member) { return member.first == name; });
    }
    if (frame.seen.empty()) {
      for (const auto& member : members) frame.seen.insert(member.first);
    }
    return !frame.seen.insert(name).second;
  }

  Json* place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Frame& frame = open_.back();
    if (frame.node->is_object()) {
      *frame.slot = std::move(value);
      return frame.slot;
    }
    auto& items = frame.node->get_ref<Json::array_t&>();
    items.push_back(std::move(value));
    return &items.back();
  }

  bool add(Json value) {
    place(std::move(value));
    return true;
  }

  bool open(Json value) {
    if (open_.size() >= kMaxDepth)
      fail(Code::data_loss, "{} is nested deeper than {}", what_, kMaxDepth);
    Json* node = place(std::move(value));
    open_.emplace_back();
    open_.back().node = node;
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view what_;
  Json root_;
  std::vector<Frame> open_;
};

} // namespace

Json parse_json(std::string_view text, std::string_view what) {
  TreeBuilder builder(what);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

Json parse_json_option(std::string_view text, std::string_view key) {
  try {
    return parse_json(text, fmt::format("option {}", key));
  } catch (const Error& error) {
    throw Error(Code::invalid_argument, error.text(), error.hint());
  }
}

} // namespace dllm
