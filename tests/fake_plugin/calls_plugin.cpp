// Errors, the plugin itself, events.

#include "calls.h"
#include "guard.h"

namespace fake {

abi::Error* make_error(int32_t code, const std::string& message) {
  auto* error = new abi::Error{code, message};
  State::get().add("error", error);
  return error;
}

abi::Event* make_event(std::shared_ptr<Moment> moment) {
  auto* event = new abi::Event{std::move(moment)};
  State::get().add("event", event);
  return event;
}

void error_destroy(abi::ErrorDestroyArgs* args) {
  if (args->error == nullptr) return;
  if (State::get().remove("error", args->error, "PJRT_Error_Destroy")) delete args->error;
}

void error_message(abi::ErrorMessageArgs* args) {
  if (!State::get().check("error", args->error, "PJRT_Error_Message")) return;
  set_text(args->error->message, &args->message, &args->message_size);
}

Error* error_get_code(abi::ErrorGetCodeArgs* args) {
  if (!State::get().check("error", args->error, "PJRT_Error_GetCode")) return nullptr;
  args->code = args->error->code;
  return nullptr;
}

Error* plugin_initialize(abi::PluginInitializeArgs*) {
  const std::lock_guard lock(State::get().mutex);
  if (State::get().counts["PJRT_Plugin_Initialize"] > 1)
    State::get().violations += "PJRT_Plugin_Initialize: called twice\n";
  return nullptr;
}

Error* plugin_attributes(abi::PluginAttributesArgs* args) {
  static const int64_t current[3] = {1, 20, 0}, oldest[3] = {0, 9, 0};
  static abi::NamedValue values[4] = {};
  static const bool made = [] {
    const char* names[4] = {"xla_version", "stablehlo_current_version", "stablehlo_minimum_version",
                            "something_new"};
    for (int i = 0; i < 4; ++i) {
      values[i].head.struct_size = abi::kSize<abi::NamedValue>;
      values[i].name = names[i];
      values[i].name_size = std::strlen(names[i]);
      values[i].type = i == 0 ? abi::NamedValueType::i64 : abi::NamedValueType::i64_list;
      values[i].value_size = i == 0 ? 1 : 3;
      values[i].int64_array_value = i == 1 ? current : oldest;
    }
    values[0].int64_value = 2;
    values[3].type = abi::NamedValueType::string;
    values[3].string_value = "new";
    return true;
  }();
  args->attributes = values;
  args->num_attributes = made ? 4 : 0;
  return nullptr;
}

namespace {

bool lives(abi::Event* event, const char* call) {
  return State::get().check("event", event, call);
}

Error* error_of(const Moment& moment) {
  return moment.code() == 0 ? nullptr : make_error(moment.code(), moment.message());
}

} // namespace

Error* event_destroy(abi::EventDestroyArgs* args) {
  if (State::get().remove("event", args->event, "PJRT_Event_Destroy")) delete args->event;
  return nullptr;
}

Error* event_is_ready(abi::EventIsReadyArgs* args) {
  if (!lives(args->event, "PJRT_Event_IsReady")) return invalid("no event");
  args->is_ready = args->event->moment->is_ready();
  return nullptr;
}

Error* event_error(abi::EventErrorArgs* args) {
  if (!lives(args->event, "PJRT_Event_Error")) return invalid("no event");
  const Moment& moment = *args->event->moment;
  if (moment.is_ready()) return error_of(moment);
  State::get().violation("PJRT_Event_Error: the event is not ready"); // a real plugin aborts
  return nullptr;
}

Error* event_await(abi::EventAwaitArgs* args) {
  if (!lives(args->event, "PJRT_Event_Await")) return invalid("no event");
  const auto moment = args->event->moment;
  if (moment->waits_for_caller && !moment->is_ready()) {
    State::get().violation("PJRT_Event_Await: waits for the end of a zero-copy upload for ever");
    return make_error(13, "this would never end");
  }
  moment->wait();
  return error_of(*moment);
}

Error* event_on_ready(abi::EventOnReadyArgs* args) {
  if (!lives(args->event, "PJRT_Event_OnReady")) return invalid("no event");
  const auto callback = args->callback;
  void* argument = args->user_arg;
  args->event->moment->when_ready([callback, argument](int32_t code, const std::string& message) {
    callback(code == 0 ? nullptr : make_error(code, message), argument);
  });
  return nullptr;
}

} // namespace fake
