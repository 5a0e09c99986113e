#include "pictures.h"

#include "../command.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

class TraceReader {
public:
  explicit TraceReader(std::string name) : name_(std::move(name)) {}

  // may_be_cut: the line has no line break, and other lines came before it.
  void read_line(std::string_view text, bool may_be_cut) {
    ++line_;
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) return;
    const Json object = Json::parse(text, nullptr, false);
    if (object.is_discarded() && may_be_cut) {
      trace_.cut = true;
      return;
    }
    if (!object.is_object()) fail("is not a JSON object");
    if (object.contains("slot"))
      add_step(object);
    else if (object.contains("tokens") || object.contains("model"))
      read_header(object);
    else
      fail("is neither a step (it has no \"slot\") nor a header (no \"tokens\")");
  }

  Trace finish() {
    if (trace_.slots.empty()) {
      throw Failure(DLLM_INVALID_ARGUMENT, name_ + " holds no step",
                    "save one with: dllm generate --model MODEL --trace " + name_);
    }
    std::sort(trace_.slots.begin(), trace_.slots.end(),
              [](const TraceSlot& a, const TraceSlot& b) { return a.number < b.number; });
    return std::move(trace_);
  }

private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Failure(DLLM_INVALID_ARGUMENT, name_ + ":" + std::to_string(line_) + ": the line " + what,
                  "dllm generate --trace FILE writes a trace: one JSON object per line");
  }

  int64_t number(const Json& object, const char* key, bool required) const {
    const auto found = object.find(key);
    if (found == object.end() && !required) return 0;
    if (found == object.end() || !found->is_number_integer())
      fail(std::string("has no whole number \"") + key + "\"");
    const bool fits =
        !found->is_number_unsigned() ||
        found->get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (!fits || found->get<int64_t>() < 0)
      fail(std::string("has a bad \"") + key + "\": " + found->dump());
    return found->get<int64_t>();
  }

  const Json& list(const Json& object, const char* key) const {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_array())
      fail(std::string("has no list \"") + key + "\"");
    if (static_cast<int64_t>(found->size()) > kMostPositions) {
      fail("has " + std::to_string(found->size()) + " entries in \"" + key + "\", more than " +
           std::to_string(kMostPositions));
    }
    return *found;
  }

  // Reads whole numbers from 0 to `most`.
  template <class T>
  std::vector<T> numbers(const Json& object, const char* key, int64_t most) const {
    std::vector<T> values;
    for (const Json& item : list(object, key)) {
      if (!item.is_number_unsigned() || item.get<uint64_t>() > static_cast<uint64_t>(most)) {
        fail(std::string("has ") + item.dump().substr(0, 40) + " in \"" + key +
             "\", not a whole number from 0 to " + std::to_string(most));
      }
      values.push_back(static_cast<T>(item.get<uint64_t>()));
    }
    return values;
  }

  std::vector<float> probabilities(const Json& object) const {
    std::vector<float> values;
    for (const Json& item : list(object, "confidence")) {
      // JSON has no NaN: writers put null there.
      const float value = item.is_number() ? item.get<float>() : item.is_null() ? 0.0f : -1.0f;
      if (!(value >= 0 && value <= 1.001f))
        fail("has " + item.dump().substr(0, 40) + " in \"confidence\", not a number from 0 to 1");
      values.push_back(std::min(value, 1.0f));
    }
    return values;
  }

  void read_header(const Json& object) {
    if (const auto model = object.find("model"); model != object.end() && model->is_string())
      trace_.model = *model;
    if (const auto mask = object.find("mask_id"); mask != object.end() && mask->is_number_integer())
      trace_.mask_id = *mask;
    read_joined(object);
    const auto tokens = object.find("tokens");
    if (tokens == object.end()) return;
    if (!tokens->is_object()) fail("has \"tokens\" that are not an object");
    for (const auto& [key, value] : tokens->items()) {
      const bool is_id = !key.empty() && key.size() <= 9 &&
                         key.find_first_not_of("0123456789") == std::string::npos;
      if (!is_id || !value.is_string())
        fail("has a token \"" + key.substr(0, 20) + "\" that is not an id with a text");
      trace_.tokens[std::stoi(key)] = value.get<std::string>();
    }
  }

  void read_joined(const Json& object) {
    const auto joined = object.find("joined");
    if (joined == object.end()) return;
    if (!joined->is_object()) fail("has \"joined\" that is not an object");
    for (const auto& [key, value] : joined->items()) {
      const bool are_ids =
          key.find_first_not_of("0123456789 ") == std::string::npos && key.size() < 100;
      if (!are_ids || !value.is_string())
        fail("has a \"joined\" entry that is not ids with a text");
      trace_.joined[key] = value.get<std::string>();
    }
  }

  void add_step(const Json& object) {
    if (object.contains("stopped"))
      return; // the decoder's last line: the trace outgrew trace_bytes
    TraceStep step;
    step.step = number(object, "step", true);
    step.block = number(object, "block", false);
    step.evaluations = number(object, "nfe", false);
    step.ids = numbers<int32_t>(object, "ids", std::numeric_limits<int32_t>::max());
    step.states = numbers<uint8_t>(object, "states", DLLM_FIXED);
    step.confidence = probabilities(object);
    const size_t length = step.ids.size();
    if (step.states.size() != length || step.confidence.size() != length) {
      fail("has " + std::to_string(length) + " ids, " + std::to_string(step.states.size()) +
           " states and " + std::to_string(step.confidence.size()) + " confidences");
    }
    if (object.contains("decided"))
      step.decided = numbers<int64_t>(object, "decided", static_cast<int64_t>(length) - 1);
    step.open = object.contains("open")
                    ? number(object, "open", true)
                    : std::count(step.states.begin(), step.states.end(), DLLM_MASKED);
    cells_ += static_cast<int64_t>(length);
    if (cells_ > kMostCells)
      fail("is the one where steps x positions exceed " + std::to_string(kMostCells));
    slot(number(object, "slot", true)).steps.push_back(std::move(step));
  }

  TraceSlot& slot(int64_t wanted) {
    for (TraceSlot& known : trace_.slots) {
      if (known.number == wanted) return known;
    }
    if (trace_.slots.size() >= 1000) fail("begins slot number 1001: a picture holds 1000");
    trace_.slots.push_back({wanted, {}});
    return trace_.slots.back();
  }

  std::string name_;
  int64_t line_ = 0, cells_ = 0;
  Trace trace_;
};

} // namespace

size_t TraceSlot::positions() const {
  size_t most = 0;
  for (const TraceStep& step : steps) most = std::max(most, step.ids.size());
  return most;
}

std::string Trace::text_of(int32_t id) const {
  const auto found = tokens.find(id);
  return found == tokens.end() ? "\u27e8" + std::to_string(id) + "\u27e9" : found->second;
}

std::vector<std::string> Trace::texts_of(const TraceStep& step) const {
  std::vector<std::string> texts(step.ids.size());
  for (size_t i = 0; i < step.ids.size(); ++i) {
    if (step.states[i] == DLLM_MASKED) continue;
    texts[i] = text_of(step.ids[i]);
    for (size_t count = 2; !joined.empty() && count <= kMostJoined && i + count <= step.ids.size();
         ++count) {
      if (step.states[i + count - 1] == DLLM_MASKED) break;
      const auto found = joined.find(joined_key(step.ids.data() + i, count));
      if (found == joined.end()) continue;
      texts[i] = found->second;
      i += count - 1;
      break;
    }
  }
  return texts;
}

std::string joined_key(const int32_t* ids, size_t count) {
  std::string key;
  for (size_t i = 0; i < count; ++i) key += (i == 0 ? "" : " ") + std::to_string(ids[i]);
  return key;
}

Trace parse_trace(std::string_view text, const std::string& name) {
  TraceReader reader(name);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    reader.read_line(text.substr(begin, end - begin), end == text.size() && begin > 0);
    begin = end + 1;
  }
  return reader.finish();
}

std::string trace_header(const std::string& model, int64_t mask_id,
                         const std::map<int32_t, std::string>& tokens,
                         const std::map<std::string, std::string>& joined) {
  Json texts = Json::object();
  for (const auto& [id, piece] : tokens) texts[std::to_string(id)] = piece;
  Json header = {{"model", model}, {"mask_id", mask_id}, {"tokens", std::move(texts)}};
  if (!joined.empty()) header["joined"] = joined;
  return header.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace dllm::cli
