#include "pjrt/event.h"

#include <memory>

namespace dllm::pjrt {
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
