#pragma once
// The functions of the C ABI as data, from abi/manifest.json, which is embedded in the library.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::lua {

enum class ParamKind {
  handle,
  out_buffer,
  out_handle,
  text,
  bytes,
  array,
  shaped,
  dst,
  length,
  i32,
  i64,
  f64,
  out_number,
  callback,
  user_data,
  error,
};
enum class ResultKind { status, nothing, i32, i64, text, handle, array };
enum class Element { i32, i64, u8, f32, f64, byte };

struct Param {
  std::string name;
  ParamKind kind;
  std::string noun; // handles: "model"; of options also the schema's kind in `schema`
  std::string schema;
  Element element = Element::i32;
  int length = -1; // index of the parameter that counts it
  bool nullable = false;
  bool derived = false;  // not an argument of the Lua function
  bool is_const = false; // handles: the call only reads it
};

struct Function {
  std::string name;
  ResultKind result;
  std::string result_noun;
  Element result_element = Element::i32;
  std::string takes; // the parameter that the call releases
  std::vector<Param> params;
  void (*address)() = nullptr;
};

struct Constant {
  std::string name;
  int64_t value;
};

struct Manifest {
  std::vector<Function> functions;
  std::vector<Constant> constants;
  std::vector<std::string> nouns;
};

// Parsed once. Functions that scripts cannot use are left out: those of dllm/lua.h, and those that return pointers to bytes.
const Manifest& manifest();

int64_t element_size(Element element);

} // namespace dllm::lua
