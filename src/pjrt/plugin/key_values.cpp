#include "pjrt/plugin/key_values.h"

#include "base/error.h"

#include <cstring>
#include <new>
#include <string>

namespace dllm::pjrt {
namespace {

void delete_value(char* value) {
  delete[] value;
}

template <class Args> void give_value(const std::string& value, Args& args) {
  args.value = new char[value.size() + 1]; // not null, which a plugin may take for a failure
  std::memcpy(args.value, value.data(), value.size());
  args.value_size = value.size();
  args.deleter = delete_value;
}

// Calls work(store, key) and returns its exception as an error of the plugin, whose interface is C.
template <class Args, class Work> abi::Error* answer(Args* args, const Work& work) noexcept {
  const auto failed = [&](Code code, const std::string& text) {
    return (*args->callback_error)(static_cast<abi::ErrorCode>(code), text.data(), text.size());
  };
  try {
    work(*static_cast<comm::KeyValueStore*>(args->user_arg),
         std::string(args->key, args->key_size));
    return nullptr;
  } catch (const Error& error) {
    return failed(error.code(), error.text());
  } catch (const std::bad_alloc&) {
    return failed(Code::resource_exhausted, "out of memory");
  } catch (const std::exception& error) {
    return failed(Code::internal, error.what());
  }
}

abi::Error* get(abi::KeyValueGetCallbackArgs* args) {
  return answer(args, [&](comm::KeyValueStore& store, const std::string& key) {
    give_value(store.get(key, comm::KeyValueStore::Milliseconds(args->timeout_in_ms)), *args);
  });
}

abi::Error* try_get(abi::KeyValueTryGetCallbackArgs* args) {
  return answer(args, [&](comm::KeyValueStore& store, const std::string& key) {
    const auto found = store.find(key);
    if (!found) fail(Code::not_found, "no such key yet");
    give_value(*found, *args);
  });
}

abi::Error* put(abi::KeyValuePutCallbackArgs* args) {
  return answer(args, [&](comm::KeyValueStore& store, const std::string& key) {
    store.put(key, std::string(args->value, args->value_size));
  });
}

} // namespace

// Sets all three callbacks. A plugin ignores the store if one is missing.
void give_store(comm::KeyValueStore& store, abi::ClientCreateArgs& args) {
  args.kv_get_callback = get;
  args.kv_get_user_arg = &store;
  args.kv_put_callback = put;
  args.kv_put_user_arg = &store;
  args.kv_try_get_callback = try_get;
  args.kv_try_get_user_arg = &store;
}

} // namespace dllm::pjrt
