#pragma once
// The one argument of the one callback type: a kind and values by key, so that events can grow.

#include "base/json.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace dllm {

// Numbers are those of include/dllm/base.h.
enum class EventKind : int32_t { progress = 1, train_step = 2, eval = 3, decode_step = 4, block = 5, checkpoint = 6 };
enum class Answer : int32_t { go_on = 0, stop = 1, fail = 2 };

class Event {
 public:
  using Value = std::variant<int64_t, double, std::string, std::vector<int32_t>, std::vector<float>>;

  explicit Event(EventKind kind) : kind_(kind) {}
  EventKind kind() const { return kind_; }
  Event& set(std::string key, Value value) {
    values_.insert_or_assign(std::move(key), std::move(value));
    return *this;
  }
  // Null when there is no such key.
  const Value* find(std::string_view key) const;
  std::vector<std::string> keys() const;
  Json to_json() const;  // {"event": "train_step", ...}

 private:
  EventKind kind_;
  std::map<std::string, Value, std::less<>> values_;
};

using EventFn = std::function<Answer(const Event&)>;

}  // namespace dllm
