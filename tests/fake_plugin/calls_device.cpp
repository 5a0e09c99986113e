// Devices, their descriptions and memories.

#include "calls.h"
#include "guard.h"

namespace dllm::pjrt::abi {

DeviceDescription::DeviceDescription(int number, int its_process)
    : id(number), process(its_process),
      text("FakeDevice(id=" + std::to_string(number) + ")"), coordinates{number, 0, 0} {
  NamedValue coords{};
  coords.head.struct_size = kSize<NamedValue>;
  coords.name = "coords";
  coords.name_size = 6;
  coords.type = NamedValueType::i64_list;
  coords.int64_array_value = coordinates.data();
  coords.value_size = coordinates.size();
  attributes.push_back(coords);
}

Device::Device(int number, int process) : description(number, process) {
  memory.id = number;
  memory.device = this;
}

} // namespace dllm::pjrt::abi

namespace fake {

Error* device_description_id(abi::DeviceDescriptionIdArgs* args) {
  args->id = args->device_description->id;
  return nullptr;
}

Error* device_description_process_index(abi::DeviceDescriptionProcessIndexArgs* args) {
  args->process_index = args->device_description->process;
  return nullptr;
}

Error* device_description_attributes(abi::DeviceDescriptionAttributesArgs* args) {
  args->attributes = args->device_description->attributes.data();
  args->num_attributes = args->device_description->attributes.size();
  return nullptr;
}

Error* device_description_kind(abi::DeviceDescriptionKindArgs* args) {
  set_text(args->device_description->kind, &args->device_kind, &args->device_kind_size);
  return nullptr;
}

Error* device_description_debug_string(abi::DeviceDescriptionDebugStringArgs* args) {
  set_text(args->device_description->text, &args->debug_string, &args->debug_string_size);
  return nullptr;
}

Error* device_description_to_string(abi::DeviceDescriptionToStringArgs* args) {
  set_text(args->device_description->text, &args->to_string, &args->to_string_size);
  return nullptr;
}

Error* device_get_description(abi::DeviceGetDescriptionArgs* args) {
  args->device_description = &args->device->description;
  return nullptr;
}

Error* device_is_addressable(abi::DeviceIsAddressableArgs* args) {
  args->is_addressable = true;
  return nullptr;
}

Error* device_local_hardware_id(abi::DeviceLocalHardwareIdArgs* args) {
  args->local_hardware_id = args->device->description.id;
  return nullptr;
}

Error* device_addressable_memories(abi::DeviceAddressableMemoriesArgs* args) {
  args->memories = args->device->memories;
  args->num_memories = 1;
  return nullptr;
}

Error* device_default_memory(abi::DeviceDefaultMemoryArgs* args) {
  args->memory = &args->device->memory;
  return nullptr;
}

Error* device_memory_stats(abi::DeviceMemoryStatsArgs* args) {
  const std::lock_guard lock(State::get().mutex);
  args->bytes_in_use = args->device->bytes_in_use;
  args->peak_bytes_in_use = args->device->peak_bytes;
  args->peak_bytes_in_use_is_set = true;
  args->bytes_limit = State::get().settings.memory_limit;
  args->bytes_limit_is_set = args->bytes_limit > 0;
  return nullptr;
}

Error* memory_id(abi::MemoryIdArgs* args) {
  args->id = args->memory->id;
  return nullptr;
}

Error* memory_kind(abi::MemoryKindArgs* args) {
  set_text(args->memory->kind, &args->kind, &args->kind_size);
  return nullptr;
}

Error* memory_debug_string(abi::MemoryDebugStringArgs* args) {
  set_text(args->memory->text, &args->debug_string, &args->debug_string_size);
  return nullptr;
}

Error* memory_to_string(abi::MemoryToStringArgs* args) {
  set_text(args->memory->text, &args->to_string, &args->to_string_size);
  return nullptr;
}

Storage::~Storage() {
  if (device != nullptr && own != nullptr) {
    const std::lock_guard lock(State::get().mutex);
    device->bytes_in_use -= static_cast<int64_t>(size);
    State::get().bytes_in_use -= static_cast<int64_t>(size);
  }
  if (returned != nullptr) returned->finish();
}

Error* allocate(abi::Device* device, size_t bytes, std::shared_ptr<Storage>* out) {
  {
    const std::lock_guard lock(State::get().mutex);
    const int64_t limit = State::get().settings.memory_limit;
    const int64_t after = device->bytes_in_use + static_cast<int64_t>(bytes);
    if (limit == 0 || after <= limit) {
      device->bytes_in_use = after;
      State::get().bytes_in_use += static_cast<int64_t>(bytes);
      device->peak_bytes = std::max(device->peak_bytes, after);
      auto storage = std::make_shared<Storage>();
      storage->device = device;
      storage->own = std::make_unique<char[]>(std::max<size_t>(bytes, 1)); // zeros
      storage->data = storage->own.get();
      storage->size = bytes;
      *out = std::move(storage);
      return nullptr;
    }
  }
  return make_error(8,
                    "Out of memory while trying to allocate " + std::to_string(bytes) + " bytes.");
}

} // namespace fake
