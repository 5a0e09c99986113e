#ifndef DLLM_CPP_EVENT_HPP
#define DLLM_CPP_EVENT_HPP
// The class for events, and the calls that carry exceptions of callbacks past the C functions.
#include "dllm/cpp/handle.hpp"

#include <exception>
#include <span>

namespace dllm {
inline namespace api {

// One event, valid until the callback returns. dllm/event.h lists the keys of each kind.
class Event {
public:
  explicit Event(const dllm_event* event) noexcept : event_(event) {}
  const dllm_event* get() const noexcept { return event_; }
  // Returns a constant DLLM_EVENT_...
  int32_t kind() const noexcept { return dllm_event_kind(event_); }

  int64_t i64(const char* key) const {
    return number<int64_t>(
        [&](int64_t* out, dllm_error* err) { return dllm_event_i64(event_, key, out, err); });
  }
  double f64(const char* key) const {
    return number<double>(
        [&](double* out, dllm_error* err) { return dllm_event_f64(event_, key, out, err); });
  }
  // Returns the text of a key, or an empty text when the event does not have the key.
  std::string_view str(const char* key) const noexcept {
    const char* text = dllm_event_str(event_, key);
    return text == nullptr ? std::string_view() : std::string_view(text);
  }
  // Returns an array that is valid until the callback returns. data() of the result is NULL when
  // the event does not have the key.
  std::span<const int32_t> i32s(const char* key) const noexcept {
    int64_t count = 0;
    const int32_t* first = dllm_event_i32s(event_, key, &count);
    return {first, static_cast<std::size_t>(count)};
  }
  std::span<const float> f32s(const char* key) const noexcept {
    int64_t count = 0;
    const float* first = dllm_event_f32s(event_, key, &count);
    return {first, static_cast<std::size_t>(count)};
  }
  std::string describe() const {
    return text(
        [&](dllm_buffer* out, dllm_error* err) { return dllm_event_describe(event_, out, err); });
  }

private:
  const dllm_event* event_;
};

// The result of a callback. A callback that returns nothing continues.
enum class Next : int32_t { go_on = DLLM_CONTINUE, stop = DLLM_STOP };

// Adapts a callable to dllm_event_fn. It stores an exception of the callable until the C function
// has returned.
template <class F> class Callback {
public:
  explicit Callback(F& f) noexcept : f_(&f) {}

  static int32_t run(const dllm_event* event, void* user_data) noexcept {
    auto& self = *static_cast<Callback*>(user_data);
#if defined(__cpp_exceptions)
    try {
      return self.answer(Event(event));
    } catch (...) {
      self.thrown_ = std::current_exception();
      return DLLM_FAIL;
    }
#else
    return self.answer(Event(event));
#endif
  }
  // Rethrows the callable's exception, or throws the failure of the call. Call it after the C
  // function.
  void finish(const Owned<dllm_error>& err, dllm_status status) const {
#if defined(__cpp_exceptions)
    if (thrown_) std::rethrow_exception(thrown_);
#endif
    if (status != DLLM_OK)
      raise(Error(status, dllm_error_message(err.get()), dllm_error_hint(err.get())));
  }

private:
  int32_t answer(const Event& event) {
    if constexpr (std::is_void_v<std::invoke_result_t<F&, const Event&>>) {
      (*f_)(event);
      return DLLM_CONTINUE;
    } else {
      return static_cast<int32_t>(static_cast<Next>((*f_)(event)));
    }
  }
  F* f_;
  std::exception_ptr thrown_;
};

// Calls a C function that takes a callback. Use it as
//   call_with(f, [&](dllm_event_fn fn, void* data, dllm_error* err) {
//     return dllm_x_run(..., fn, data, ..., err);
//   });
template <class F, class Call> void call_with(F& f, Call&& c_call) {
  Callback<F> callback(f);
  const Owned<dllm_error> err(dllm_error_new());
  callback.finish(err, c_call(&Callback<F>::run, static_cast<void*>(&callback), err.get()));
}

} // namespace api
} // namespace dllm
#endif
