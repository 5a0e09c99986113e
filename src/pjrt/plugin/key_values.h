#pragma once
// The key-value store of several processes as a plugin calls it.

#include "comm/key_value_store.h"
#include "pjrt/abi/client.h"

namespace dllm::pjrt {

// REQUIRES: the store lives as long as the client that is created.
void give_store(comm::KeyValueStore& store, abi::ClientCreateArgs& args);

} // namespace dllm::pjrt
