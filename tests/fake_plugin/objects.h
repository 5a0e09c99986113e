#pragma once
// The objects behind the plugin's opaque handles.

#include "moment.h"
#include "nodes.h"
#include "pjrt/abi/table.h"
#include "signature.h"

#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace dllm::pjrt::abi {

struct Error {
  int32_t code;
  std::string message;
};

struct Event {
  std::shared_ptr<fake::Moment> moment;
};

struct Memory {
  int id = 0;
  std::string kind = "device";
  std::string text = "fake memory";
  abi::Device* device = nullptr;
};

struct DeviceDescription {
  int id = 0;
  int process = 0;
  std::string kind = "fake device";
  std::string text;
  std::vector<int64_t> coordinates;
  std::vector<NamedValue> attributes;

  explicit DeviceDescription(int number, int process = 0);
  DeviceDescription(const DeviceDescription&) = delete;
};

struct Device {
  DeviceDescription description;
  Memory memory;
  abi::Memory* memories[1] = {&memory};
  int64_t bytes_in_use = 0, peak_bytes = 0; // guarded by State::mutex, as what follows
  fake::Clock::time_point busy_until;
  std::deque<fake::Clock::time_point> ends; // of runs that were started

  explicit Device(int number, int process = 0);
};

struct TopologyDescription {
  std::string name;
  std::deque<DeviceDescription> devices;
  std::vector<abi::DeviceDescription*> pointers;
  explicit TopologyDescription(const std::string& name, int64_t devices);
};

struct Client {
  std::string platform, version = "fake 1.0";
  fake::Nodes nodes;
  std::deque<Device> devices;                // of all processes
  std::vector<abi::Device*> pointers, local; // of all, and of this one
  std::vector<abi::Memory*> memories;        // of this one
  TopologyDescription topology;
  explicit Client(const std::string& platform, fake::Nodes nodes);
};

// A program that was compiled; a handle of it, and one that is loaded.
struct Executable {
  std::shared_ptr<const fake::Compiled> compiled;
};
struct LoadedExecutable {
  abi::Client* client;
  std::shared_ptr<const fake::Compiled> compiled;
  std::vector<abi::Device*> devices; // one per replica of this process
  bool deleted = false;
};

struct SerializedExecutable {
  std::string bytes;
};
struct SerializedTopology {
  std::string bytes;
};

struct Buffer {
  abi::Client* client;
  abi::Device* device;
  fake::TensorType type;
  std::shared_ptr<fake::Storage> storage; // null: deleted or donated
  std::shared_ptr<fake::Moment> ready;
};

} // namespace dllm::pjrt::abi

namespace fake {

abi::Error* make_error(int32_t code, const std::string& message);
abi::Event* make_event(std::shared_ptr<Moment> moment);
abi::Buffer* make_buffer(abi::Buffer content);
// Fails like a device that is full.
abi::Error* allocate(abi::Device* device, size_t bytes, std::shared_ptr<Storage>* out);

} // namespace fake
