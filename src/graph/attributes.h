#pragma once
// The static arguments of a node: few, named, printable, comparable (so common nodes can be merged).

#include "base/error.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace dllm::graph {

using Attribute = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>>;

class Attributes {
public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string, Attribute>> entries)
      : entries_(entries) {}

  void set(std::string name, Attribute value); // replaces
  bool has(std::string_view name) const;
  // Fails with Code::internal when the attribute is missing or of another type: a bug in an op.
  bool flag(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const std::vector<int64_t>& list(std::string_view name) const;

  const std::vector<std::pair<std::string, Attribute>>& entries() const { return entries_; }
  std::string dump() const; // "axis=1 begin=[0, 4]"; "" when empty
  friend bool operator==(const Attributes&, const Attributes&) = default;

private:
  template <class T> const T& get(std::string_view name) const;
  std::vector<std::pair<std::string, Attribute>> entries_;
};

} // namespace dllm::graph
