#pragma once
// Pickles that hold tensors and nothing else. A pickle is a program for a machine with a stack: this one has the opcodes that
// torch.save writes for a state_dict, and builds plain data; no name of a pickle is ever looked up or called. Opcodes:
// Lib/pickletools.py of CPython.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::ckpt {

// A tensor as a pickle describes it: a view of a storage, which is an entry of the ZIP file.
struct PickledTensor {
  std::string name;
  std::string storage;  // its key: entry data/<key>
  std::string kind;     // "FloatStorage"
  int64_t elements = 0; // of the storage
  int64_t offset = 0;   // of the first element; this and the strides count elements
  std::vector<int64_t> shape, strides;
};

// The tensors of a dict of names and tensors, in its order. data_loss for a broken pickle; unimplemented, with the
// opcode or the global, for anything that is no dict of tensors. `file` names it in errors.
std::vector<PickledTensor> parse_tensor_pickle(std::string_view pickle, const std::string& file);

} // namespace dllm::ckpt
