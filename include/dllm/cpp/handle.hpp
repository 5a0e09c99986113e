#ifndef DLLM_CPP_HANDLE_HPP
#define DLLM_CPP_HANDLE_HPP
// Owning handles, errors, and the helper calls of all classes. dllm/dllm.hpp explains the rules.
#include "dllm/dllm.h"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

// The inline namespace keeps these symbols distinct from other symbols dllm::... of a program.
namespace dllm {
inline namespace api {

// The exception of a call that failed. what() is the message, status() is one of the DLLM_
// constants, and hint() is an advice or "".
class Error : public std::runtime_error {
public:
  Error(dllm_status status, const std::string& message, std::string hint = {})
      : std::runtime_error(message), status_(status), hint_(std::move(hint)) {}
  dllm_status status() const noexcept { return status_; }
  const std::string& hint() const noexcept { return hint_; }

private:
  dllm_status status_;
  std::string hint_;
};

[[noreturn]] inline void raise(const Error& error) {
#if defined(__cpp_exceptions)
  throw error;
#else
  std::fprintf(stderr, "dllm: %s\n%s\n", error.what(), error.hint().c_str());
  std::abort();
#endif
}

// Holds a value or an Error. Calls without a value return Result<void>.
template <class T> class [[nodiscard]] Result {
public:
  using Value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;
  Result(Value value) : content_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : content_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const noexcept { return content_.index() == 0; }
  bool has_value() const noexcept { return content_.index() == 0; }
  // Returns the error. REQUIRES: !has_value().
  const Error& error() const { return std::get<1>(content_); }
  // Returns the value, or throws the error.
  Value& value() & { return need(), std::get<0>(content_); }
  const Value& value() const& { return need(), std::get<0>(content_); }
  Value&& value() && { return need(), std::move(std::get<0>(content_)); }
  Value& operator*() & { return value(); }
  Value&& operator*() && { return std::move(*this).value(); }
  Value* operator->() { return &value(); }

private:
  void need() const {
    if (!has_value()) raise(error());
  }
  std::variant<Value, Error> content_;
};

// Calls f and returns its value or the Error that it throws. Exceptions of callbacks, which have
// other types, pass through.
//   if (auto model = dllm::attempt([&] { return dllm::Model::load(engine, path); })) use(*model);
#if defined(__cpp_exceptions)
template <class F> auto attempt(F&& f) -> Result<std::invoke_result_t<F>> {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
      std::forward<F>(f)();
      return std::monostate{};
    } else {
      return std::forward<F>(f)();
    }
  } catch (const Error& error) {
    return error;
  }
}
#endif

// Releases a handle of any kind.
struct Release {
  void operator()(dllm_buffer* handle) const noexcept { dllm_buffer_release(handle); }
  void operator()(dllm_error* handle) const noexcept { dllm_error_release(handle); }
  void operator()(dllm_options* handle) const noexcept { dllm_options_release(handle); }
  void operator()(dllm_task* handle) const noexcept { dllm_task_release(handle); }
  void operator()(dllm_engine* handle) const noexcept { dllm_engine_release(handle); }
  void operator()(dllm_tensor* handle) const noexcept { dllm_tensor_release(handle); }
  void operator()(dllm_source* handle) const noexcept { dllm_source_release(handle); }
  void operator()(dllm_model* handle) const noexcept { dllm_model_release(handle); }
  void operator()(dllm_tokenizer* handle) const noexcept { dllm_tokenizer_release(handle); }
  void operator()(dllm_answer* handle) const noexcept { dllm_answer_release(handle); }
  void operator()(dllm_dataset* handle) const noexcept { dllm_dataset_release(handle); }
  void operator()(dllm_loader* handle) const noexcept { dllm_loader_release(handle); }
  void operator()(dllm_batch* handle) const noexcept { dllm_batch_release(handle); }
  void operator()(dllm_schedule* handle) const noexcept { dllm_schedule_release(handle); }
  void operator()(dllm_objective* handle) const noexcept { dllm_objective_release(handle); }
  void operator()(dllm_trainer* handle) const noexcept { dllm_trainer_release(handle); }
  void operator()(dllm_decoder* handle) const noexcept { dllm_decoder_release(handle); }
  void operator()(dllm_generator* handle) const noexcept { dllm_generator_release(handle); }
  void operator()(dllm_queue* handle) const noexcept { dllm_queue_release(handle); }
  void operator()(dllm_checkpoint* handle) const noexcept { dllm_checkpoint_release(handle); }
  void operator()(dllm_lua* handle) const noexcept { dllm_lua_release(handle); }
};

// Owns a handle that a C function returned.
template <class T> using Owned = std::unique_ptr<T, Release>;

// The base of all classes. It owns one handle, can be moved and cannot be copied. An object that
// was moved from or reset has a NULL handle, and its calls fail with DLLM_INVALID_ARGUMENT.
template <class T> class Handle {
public:
  using Type = T;
  Handle() = default;
  explicit Handle(T* handle) noexcept : handle_(handle) {}
  explicit Handle(Owned<T> handle) noexcept : handle_(std::move(handle)) {}

  T* get() const noexcept { return handle_.get(); }
  explicit operator bool() const noexcept { return handle_ != nullptr; }
  // Releases the handle now. A second call does nothing.
  void reset() noexcept { handle_.reset(); }
  // Passes ownership of the handle to the caller.
  [[nodiscard]] T* detach() noexcept { return handle_.release(); }

private:
  Owned<T> handle_;
};

// Returns the handle of an optional argument, or NULL for nullptr. Fails for an object without a
// handle, because the C function would take its NULL as an absent argument.
template <class T> auto handle_of(const T* object) -> typename T::Type* {
  if (object == nullptr) return nullptr;
  if (!*object)
    raise(Error(DLLM_INVALID_ARGUMENT, "the object holds no handle: it was moved from or reset"));
  return object->get();
}

// Calls a C function and throws Error unless its status is DLLM_OK.
//   call([&](dllm_error* err) { return dllm_x(..., err); });
template <class F> void call(F&& f) {
  const Owned<dllm_error> err(dllm_error_new());
  const dllm_status status = f(err.get());
  if (status != DLLM_OK)
    raise(Error(status, dllm_error_message(err.get()), dllm_error_hint(err.get())));
}

// Calls a C function that returns a handle.
//   make<dllm_engine>([&](dllm_engine** out, dllm_error* err) {
//     return dllm_engine_new(opts, out, err);
//   });
template <class T, class F> Owned<T> make(F&& f) {
  T* out = nullptr;
  call([&](dllm_error* err) { return f(&out, err); });
  return Owned<T>(out);
}

// Calls a C function that fills a buffer, and returns its content.
//   text([&](dllm_buffer* out, dllm_error* err) { return dllm_model_config(model, out, err); });
template <class F> std::string text(F&& f) {
  const Owned<dllm_buffer> buffer(dllm_buffer_new());
  call([&](dllm_error* err) { return f(buffer.get(), err); });
  return {static_cast<const char*>(dllm_buffer_data(buffer.get())),
          static_cast<std::size_t>(dllm_buffer_size(buffer.get()))};
}

// Calls a C function that writes a number, and returns the number.
//   number<int64_t>([&](int64_t* out, dllm_error* err) {
//     return dllm_model_i64(model, key, out, err);
//   });
template <class T, class F> T number(F&& f) {
  T value{};
  call([&](dllm_error* err) { return f(&value, err); });
  return value;
}

// Calls a C function that copies an array, and returns the array. `room` is the size of the first
// try. The count may grow between two calls, so the function tries until the array fits.
//   array<int32_t>([&](int32_t* dst, int64_t room, int64_t* count, dllm_error* err) {
//     return dllm_x_ids(...);
//   });
template <class T, class F> std::vector<T> array(F&& f, std::size_t room = 0) {
  std::vector<T> values(room);
  for (;;) {
    int64_t count = 0;
    dllm_status status = DLLM_OK;
    call([&](dllm_error* err) {
      status = f(values.data(), static_cast<int64_t>(values.size()), &count, err);
      return status == DLLM_OUT_OF_RANGE && count > static_cast<int64_t>(values.size()) ? DLLM_OK
                                                                                        : status;
    });
    values.resize(static_cast<std::size_t>(count));
    if (status == DLLM_OK) return values;
  }
}

// Returns the text with a 0 byte at its end, as the C functions need it. Fails for a text with a 0
// byte inside, which a C function would cut without an error.
inline std::string zero_ended(std::string_view text) {
  if (text.find('\0') != std::string_view::npos)
    raise(Error(DLLM_INVALID_ARGUMENT, "a name or path holds a byte 0"));
  return std::string(text);
}

inline int64_t size_of(std::size_t size) {
  return static_cast<int64_t>(size);
}
inline std::string or_empty(const char* text) {
  return text == nullptr ? std::string() : std::string(text);
}

// Cancels and watches a long call from any thread.
class Task : public Handle<dllm_task> {
public:
  Task() : Handle(dllm_task_new()) {}
  void cancel() const noexcept { dllm_task_cancel(get()); }
  bool is_cancelled() const noexcept { return dllm_task_is_cancelled(get()) != 0; }
  // Sets a deadline that counts from now. A negative number removes the deadline.
  void set_deadline(int64_t milliseconds) const noexcept {
    dllm_task_set_deadline(get(), milliseconds);
  }
  struct Progress {
    int64_t done = 0, total = 0; // a total of 0 is not known yet
  };
  Progress progress() const noexcept {
    Progress progress;
    dllm_task_progress(get(), &progress.done, &progress.total);
    return progress;
  }
};

} // namespace api
} // namespace dllm
#endif
