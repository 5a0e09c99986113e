#pragma once
// Errors, the plugin itself, and events.

#include "pjrt/abi/base.h"

namespace dllm::pjrt::abi {

// Owns `error` (may be null); runs on any thread, or before the call that was given it returns.
using EventOnReadyCallback = void (*)(Error* error, void* user_arg);

struct ErrorDestroyArgs {
  Head head;
  Error* error;
};
DLLM_PJRT_STRUCT(ErrorDestroyArgs, "PJRT_Error_Destroy", error);

struct ErrorMessageArgs {
  Head head;
  const Error* error;
  const char* message; // out
  size_t message_size; // out
};
DLLM_PJRT_STRUCT(ErrorMessageArgs, "PJRT_Error_Message", message_size);

struct ErrorGetCodeArgs {
  Head head;
  const Error* error;
  ErrorCode code; // out
};
DLLM_PJRT_STRUCT(ErrorGetCodeArgs, "PJRT_Error_GetCode", code);

struct PluginInitializeArgs {
  Head head;
};
DLLM_PJRT_STRUCT(PluginInitializeArgs, "PJRT_Plugin_Initialize", head);

struct PluginAttributesArgs {
  Head head;
  const NamedValue* attributes; // out
  size_t num_attributes;        // out
};
DLLM_PJRT_STRUCT(PluginAttributesArgs, "PJRT_Plugin_Attributes", num_attributes);

struct EventDestroyArgs {
  Head head;
  Event* event;
};
DLLM_PJRT_STRUCT(EventDestroyArgs, "PJRT_Event_Destroy", event);

struct EventIsReadyArgs {
  Head head;
  Event* event;
  bool is_ready; // out
};
DLLM_PJRT_STRUCT(EventIsReadyArgs, "PJRT_Event_IsReady", is_ready);

struct EventErrorArgs {
  Head head;
  Event* event;
};
DLLM_PJRT_STRUCT(EventErrorArgs, "PJRT_Event_Error", event);

struct EventAwaitArgs {
  Head head;
  Event* event;
};
DLLM_PJRT_STRUCT(EventAwaitArgs, "PJRT_Event_Await", event);

struct EventOnReadyArgs {
  Head head;
  Event* event;
  EventOnReadyCallback callback;
  void* user_arg;
};
DLLM_PJRT_STRUCT(EventOnReadyArgs, "PJRT_Event_OnReady", user_arg);

struct EventCreateArgs {
  Head head;
  Event* event; // out
};
DLLM_PJRT_STRUCT(EventCreateArgs, "PJRT_Event_Create", event);

struct EventSetArgs {
  Head head;
  Event* event;
  ErrorCode error_code;
  const char* error_message;
  size_t error_message_size;
};
DLLM_PJRT_STRUCT(EventSetArgs, "PJRT_Event_Set", error_message_size);

} // namespace dllm::pjrt::abi
