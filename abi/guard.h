#pragma once
// The border of the library. Here exceptions become a status, and arguments are checked once and
// named in errors.

#include "base/error.h"
#include "dllm/base.h"
#include "handle.h"

#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <string_view>

struct dllm_error : dllm::abi::Handle<dllm::abi::Kind::error> {
  dllm_status code = DLLM_OK;
  std::string message;
  std::string hint;
};

namespace dllm::abi {

// Writes a failure into `err`, which may be null or garbage, and returns the status.
dllm_status put(dllm_error* err, Code code, const char* message, const char* hint) noexcept;

template <class F> dllm_status guard(dllm_error* err, F&& f) noexcept {
  const CallScope scope;
  try {
    f();
    return DLLM_OK;
  } catch (const Error& e) {
    return put(err, e.code(), e.text().c_str(), e.hint().c_str());
  } catch (const std::bad_alloc&) {
    return put(err, Code::resource_exhausted, "out of memory", "");
  } catch (const std::exception& e) {
    return put(err, Code::internal, e.what(), "");
  } catch (...) {
    return put(err, Code::unknown, "unknown failure", "");
  }
}

// Guards functions without a status. Returns `otherwise` when anything fails.
template <class T, class F> T guard_value(T otherwise, F&& f) noexcept {
  const CallScope scope;
  try {
    return f();
  } catch (...) {
    return otherwise;
  }
}

// Returns a handle that must exist and be of its kind. The object lives until the call ends, even
// when it is released meanwhile.
template <class H> H& need(H* handle, const char* name) {
  if (handle == nullptr) fail(Code::invalid_argument, "{} is NULL", name);
  const auto destroy = [](const HandleHead* last) { delete static_cast<const H*>(last); };
  if (!CallScope::innermost().use(handle, H::kKind, destroy)) {
    fail_with_hint("give a handle of this kind that is not released", Code::invalid_argument,
                   "{} is not a handle of kind {}", name, kind_name(H::kKind));
  }
  return *handle;
}

// Returns an object that one call at a time may change (Threads: owner). Calls of one thread nest;
// a call on another thread fails.
template <class H> H& need_own(H* handle, const char* name) {
  H& found = need(handle, name);
  if (!CallScope::innermost().own(handle)) {
    fail_with_hint("make one for each thread, or take turns", Code::failed_precondition,
                   "a call on another thread uses the {}", name);
  }
  return found;
}

// Returns null for a NULL handle, else as need().
template <class H> H* optional(H* handle, const char* name) {
  return handle == nullptr ? nullptr : &need(handle, name);
}

template <class H> H* optional_own(H* handle, const char* name) {
  return handle == nullptr ? nullptr : &need_own(handle, name);
}

template <class T> T& need_out(T* out, const char* name) {
  if (out == nullptr) fail(Code::invalid_argument, "{} is NULL", name);
  return *out;
}

inline const char* need_text(const char* text, const char* name) {
  if (text == nullptr) fail(Code::invalid_argument, "{} is NULL", name);
  return text;
}

// Returns an array of the caller. NULL is allowed only with count 0.
template <class T> std::span<T> need_array(T* data, int64_t count, const char* name) {
  // More bytes than any machine addresses; a larger count is garbage.
  constexpr int64_t kLimit = int64_t{1} << 60;
  if (count < 0) fail(Code::invalid_argument, "the count of {} is {}", name, count);
  if (count > kLimit / static_cast<int64_t>(sizeof(T))) {
    fail(Code::invalid_argument, "the count of {} is {}, more than memory holds", name, count);
  }
  if (data == nullptr && count > 0)
    fail(Code::invalid_argument, "{} is NULL but has {} elements", name, count);
  return {data, static_cast<size_t>(count)};
}

inline std::string_view need_content(const char* data, int64_t size, const char* name) {
  const auto span = need_array(data, size, name);
  return {span.data(), span.size()};
}

// Copies `from` into the caller's array. When the array is too small, *out_count gets the needed
// count and the call fails with out_of_range.
template <class T>
void copy_out(std::span<const T> from, T* dst, int64_t dst_count, int64_t* out_count,
              const char* name) {
  const auto room = need_array(dst, dst_count, name);
  int64_t& count = need_out(out_count, "out_count");
  count = static_cast<int64_t>(from.size());
  if (room.size() < from.size()) {
    fail(Code::out_of_range, "{} has room for {}, {} are needed", name, room.size(), from.size());
  }
  for (size_t i = 0; i < from.size(); ++i) room[i] = from[i];
}

} // namespace dllm::abi
