// Errors and events of a plugin.

#include "pjrt/plugin/plugin.h"

#include "base/log.h"

#include <algorithm>
#include <memory>

namespace dllm::pjrt {

namespace {

constexpr size_t kLongestText = 8000; // bytes of a plugin's message that are kept

// Returns the text as one line without a full stop at the end, the form of our messages.
std::string one_line(const char* text, size_t size) {
  std::string line;
  for (char c : std::string_view(text, std::min(size, kLongestText))) {
    const bool space = c == '\n' || c == '\r' || c == '\t' || c == ' ';
    if (!space) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  while (!line.empty() && (line.back() == ' ' || line.back() == '.')) line.pop_back();
  return line;
}

void destroy(const abi::Api& api, abi::Error* error) {
  if (error == nullptr || !has_slot(api, &abi::Api::error_destroy)) return;
  auto args = sized<abi::ErrorDestroyArgs>();
  args.error = error;
  api.error_destroy(&args);
}

std::string message_of(const abi::Api& api, const abi::Error* error) {
  if (!has_slot(api, &abi::Api::error_message)) return "the plugin gives no message";
  auto args = sized<abi::ErrorMessageArgs>();
  args.error = error;
  api.error_message(&args);
  return args.message == nullptr ? "" : one_line(args.message, args.message_size);
}

Code code_of(const abi::Api& api, const abi::Error* error) {
  auto args = sized<abi::ErrorGetCodeArgs>();
  args.error = error;
  if (!has_slot(api, &abi::Api::error_get_code)) return Code::unknown;
  if (abi::Error* another = api.error_get_code(&args)) {
    destroy(api, another);
    return Code::unknown;
  }
  // An error with code ok is still an error.
  const bool known = args.code > 0 && args.code <= static_cast<int32_t>(Code::unauthenticated);
  return known ? static_cast<Code>(args.code) : Code::unknown;
}

const char* hint_of(Code code) {
  switch (code) {
  case Code::resource_exhausted:
    return "use a smaller batch or a shorter sequence, or a device with more memory";
  case Code::unimplemented: return "a newer plugin may have it";
  case Code::unavailable:
  case Code::aborted:
  case Code::data_loss:
    return "the device may be lost: make a new engine and go on from a checkpoint";
  default: return "";
  }
}

} // namespace

Error take_error(const abi::Api& api, abi::Error* error, const char* function) {
  const Code code = code_of(api, error);
  std::string text = fmt::format("{}: {}", function, message_of(api, error));
  destroy(api, error);
  log(LogLevel::debug, "pjrt: {} ({})", text, code_name(code));
  return Error(code, std::move(text), hint_of(code));
}

void fail_missing(const abi::Api& api, const char* function) {
  fail_with_hint("a newer plugin has it", Code::unimplemented,
                 "{} is not in this plugin (API {}.{}, table of {} bytes)", function,
                 api.version.major, api.version.minor, api.struct_size);
}

namespace {

struct Waiter {
  const abi::Api* api;
  std::function<void()> done;
};

void on_ready(abi::Error* error, void* user_arg) {
  const std::unique_ptr<Waiter> waiter(static_cast<Waiter*>(user_arg));
  if (error != nullptr) {
    auto args = sized<abi::ErrorDestroyArgs>();
    args.error = error;
    waiter->api->error_destroy(&args);
  }
  waiter->done();
}

} // namespace

void await(const EventHandle& event) {
  if (!event) return;
  abi::EventAwaitArgs args{};
  args.event = event.get();
  call(event.api(), &abi::Api::event_await, args);
}

bool is_ready(const EventHandle& event) {
  if (!event) return true;
  abi::EventIsReadyArgs args{};
  args.event = event.get();
  call(event.api(), &abi::Api::event_is_ready, args);
  return args.is_ready;
}

void when_ready(const EventHandle& event, std::function<void()> done) {
  if (!event) return done();
  auto waiter = std::make_unique<Waiter>(Waiter{&event.api(), std::move(done)});
  abi::EventOnReadyArgs args{};
  args.event = event.get();
  args.callback = on_ready;
  args.user_arg = waiter.get();
  call(event.api(), &abi::Api::event_on_ready, args);
  (void)waiter.release(); // on_ready owns it
}

} // namespace dllm::pjrt
