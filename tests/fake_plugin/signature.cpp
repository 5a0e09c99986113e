#include "signature.h"

#include <map>

namespace fake {
namespace {

// The text between the bracket at `begin` and the one that closes it; npos in *end when none does.
// "->" is no bracket.
std::string inside(const std::string& text, size_t begin, size_t* end) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '(' || c == '{' || c == '[' || c == '<') ++depth;
    if (c == ')' || c == '}' || c == ']' || (c == '>' && text[i - 1] != '-')) --depth;
    if (depth > 0) continue;
    *end = i + 1;
    return text.substr(begin + 1, i - begin - 1);
  }
  *end = std::string::npos;
  return "";
}

// Parts between commas that are not inside brackets.
std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  int depth = 0;
  std::string part;
  for (const char c : list) {
    if (c == '(' || c == '{' || c == '[' || c == '<') ++depth;
    if (c == ')' || c == '}' || c == ']' || c == '>') --depth;
    if (c == ',' && depth == 0) {
      parts.push_back(part);
      part.clear();
    } else {
      part += c;
    }
  }
  if (part.find_first_not_of(" \n\t") != std::string::npos) parts.push_back(part);
  return parts;
}

const std::map<std::string, abi::BufferType>& element_types() {
  using enum abi::BufferType;
  static const std::map<std::string, abi::BufferType> types = {
      {"i1", pred}, {"i8", s8},    {"i16", s16},  {"i32", s32},  {"i64", s64},
      {"ui8", u8},  {"ui16", u16}, {"ui32", u32}, {"ui64", u64}, {"f16", f16},
      {"f32", f32}, {"f64", f64},  {"bf16", bf16}};
  return types;
}

// "... tensor<2x3xf32> ..."
bool read_tensor(const std::string& text, TensorType* out) {
  const size_t begin = text.find("tensor<");
  const size_t end = text.find('>', begin);
  if (begin == std::string::npos || end == std::string::npos) return false;
  std::string rest = text.substr(begin + 7, end - begin - 7);
  for (size_t x = rest.find('x'); x != std::string::npos && std::isdigit(rest[0]);
       x = rest.find('x')) {
    out->dims.push_back(std::stoll(rest.substr(0, x)));
    rest = rest.substr(x + 1);
  }
  const auto found = element_types().find(rest);
  if (found != element_types().end()) out->type = found->second;
  return found != element_types().end();
}

bool read_arguments(const std::string& list, Compiled* out) {
  for (const std::string& part : parts_of(list)) {
    Argument argument;
    if (!read_tensor(part, &argument)) return false;
    const std::string name = "tf.aliasing_output = ";
    if (const size_t alias = part.find(name); alias != std::string::npos)
      argument.result = std::stoll(part.substr(alias + name.size()));
    out->arguments.push_back(argument);
  }
  return true;
}

// "-> tensor<f32> {" or "-> (tensor<f32>, tensor<f32> {...}) {", or nothing.
bool read_results(const std::string& text, size_t at, Compiled* out) {
  at = text.find_first_not_of(" \n\t", at);
  if (at == std::string::npos || text.compare(at, 2, "->") != 0) return true;
  at = text.find_first_not_of(" \n\t", at + 2);
  if (at == std::string::npos) return false;
  size_t end = 0;
  std::string list =
      text[at] == '(' ? inside(text, at, &end) : text.substr(at, text.find('{', at) - at);
  for (const std::string& part : parts_of(list)) {
    TensorType result;
    if (!read_tensor(part, &result)) return false;
    out->results.push_back(result);
  }
  return true;
}

bool aliases_fit(const Compiled& program) {
  for (const Argument& argument : program.arguments) {
    if (argument.result < 0) continue;
    if (static_cast<size_t>(argument.result) >= program.results.size()) return false;
    if (!(program.results[argument.result] == argument)) return false;
  }
  return true;
}

} // namespace

size_t size_of(abi::BufferType type) {
  using enum abi::BufferType;
  switch (type) {
  case pred:
  case s8:
  case u8: return 1;
  case s16:
  case u16:
  case f16:
  case bf16: return 2;
  case s32:
  case u32:
  case f32: return 4;
  case s64:
  case u64:
  case f64: return 8;
  default: return 0;
  }
}

size_t TensorType::bytes() const {
  size_t size = size_of(type);
  for (const int64_t dim : dims) size *= static_cast<size_t>(dim);
  return size;
}

size_t Compiled::argument_bytes() const {
  size_t size = 0;
  for (const Argument& argument : arguments) size += argument.bytes();
  return size;
}

size_t Compiled::result_bytes() const {
  size_t size = 0;
  for (const TensorType& result : results) size += result.bytes();
  return size;
}

size_t Compiled::alias_bytes() const {
  size_t size = 0;
  for (const Argument& argument : arguments) size += argument.result >= 0 ? argument.bytes() : 0;
  return size;
}

std::shared_ptr<Compiled> read_program(const std::string& text, std::string* why_not) {
  auto program = std::make_shared<Compiled>();
  program->text = text;
  const size_t head = text.find("@main(");
  if (head == std::string::npos) {
    *why_not = "conversion requires module with 'main' function";
    return nullptr;
  }
  size_t end = 0;
  const std::string arguments = inside(text, head + 5, &end);
  if (end == std::string::npos || !read_arguments(arguments, program.get()) ||
      !read_results(text, end, program.get()) || !aliases_fit(*program)) {
    *why_not = "-:1:1: error: the head of main is not understood: " + text.substr(head, 200);
    return nullptr;
  }
  for (const TensorType& result : program->results) {
    program->result_types.push_back(result.type);
    program->result_dims.insert(program->result_dims.end(), result.dims.begin(), result.dims.end());
    program->result_ranks.push_back(result.dims.size());
  }
  program->fingerprint = "fake-" + std::to_string(std::hash<std::string>{}(text));
  return program;
}

} // namespace fake
