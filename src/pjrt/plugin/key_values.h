#pragma once
// A plugin calls the key-value store of several processes through three callbacks.

#include "comm/key_value_store.h"
#include "pjrt/abi/client.h"

namespace dllm::pjrt {

// Sets the callbacks of a client to be created. REQUIRES: the store lives as long as the client.
void give_store(comm::KeyValueStore& store, abi::ClientCreateArgs& args);

} // namespace dllm::pjrt
