#pragma once
// What the fake plugin understands of a program: the types of its arguments and results, and which
// result takes the place of which argument. And of the options it is compiled with: the devices.

#include "moment.h"
#include "pjrt/abi/table.h"

#include <memory>
#include <string>
#include <vector>

namespace fake {

namespace abi = dllm::pjrt::abi;

struct TensorType {
  abi::BufferType type = abi::BufferType::invalid;
  std::vector<int64_t> dims;

  size_t bytes() const;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

struct Argument : TensorType {
  int64_t result = -1; // the one that takes its place
};

struct Compiled {
  std::string text, options;
  std::vector<Argument> arguments;
  std::vector<TensorType> results;
  std::vector<int> devices; // ids, one per replica; empty: as many as replicas, from 0
  int64_t replicas = 1, partitions = 1;
  // For the calls that return pointers to arrays.
  std::vector<abi::BufferType> result_types;
  std::vector<int64_t> result_dims;
  std::vector<size_t> result_ranks;
  std::string fingerprint;

  size_t argument_bytes() const, result_bytes() const, alias_bytes() const;
};

// Memory of a device, or borrowed from the host.
struct Storage {
  abi::Device* device = nullptr;
  std::unique_ptr<char[]> own;
  char* data = nullptr;
  size_t size = 0;
  std::shared_ptr<Moment> filled;   // null: it is
  std::shared_ptr<Moment> returned; // the host has its memory back
  ~Storage();
};

size_t size_of(abi::BufferType type);

// Null and a text when there is no main or something in its head is not understood.
std::shared_ptr<Compiled> read_program(const std::string& text, std::string* why_not);
// False and a text when the bytes are no CompileOptionsProto.
bool read_options(const std::string& bytes, Compiled* program, std::string* why_not);

} // namespace fake
