#pragma once
// What every entry of the table does before its body: notes the call, checks the head of the
// arguments, fails when that is set.

#include "objects.h"
#include "state.h"

#include <cstring>

namespace fake {

inline void check_head(const char* name, const abi::Head& head, size_t expected) {
  State& state = State::get();
  if (head.struct_size != expected) {
    state.violation(std::string(name) + ": struct_size is " + std::to_string(head.struct_size) +
                    ", expected " + std::to_string(expected));
  }
  if (head.extension_start != nullptr)
    state.violation(std::string(name) + ": extension_start is not null");
}

template <class T> void check_struct(const T& value) {
  check_head(abi::kFunction<T>, value.head, abi::kSize<T>);
}

// A run that is made to fail: with consumes_on_failure its donated arguments are lost.
void consume_anyway(abi::LoadedExecutableExecuteArgs* args);

// The entry of one slot around the function that does the work.
template <auto body> struct Entry;
template <class Args, abi::Error* (*body)(Args*)> struct Entry<body> {
  static constexpr const char* name = abi::kFunction<Args>;

  static abi::Error* call(Args* args) {
    check_struct(*args);
    abi::Error* error = State::get().enter(name);
    const std::string_view text(name);
    if (error == nullptr) return body(args);
    if constexpr (requires { args->argument_lists; }) consume_anyway(args);
    if (!text.ends_with("_Destroy")) return error;
    if (abi::Error* own = body(args)) delete_error(own);
    return error;
  }
  static void delete_error(abi::Error* error) {
    State::get().remove("error", error, "fake plugin");
    delete error;
  }
};

inline abi::Error* invalid(const std::string& message) {
  return make_error(3, message);
}

// Two of an entry's arguments: text and length.
template <class Size> void set_text(const std::string& text, const char** data, Size* size) {
  *data = text.data();
  *size = text.size();
}

} // namespace fake
