#pragma once
// parse_tensor_pickle() reads pickles that hold only tensors. A pickle is a program for a stack
// machine. This machine has the opcodes that torch.save writes for a state_dict (see
// Lib/pickletools.py of CPython) and builds plain data. It never imports or calls a name of the
// pickle.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::ckpt {

// A tensor as a pickle describes it: a view of a storage, which is an entry of the ZIP file.
struct PickledTensor {
  std::string name;
  std::string storage;                 // key of the storage, in the entry data/<key>
  std::string kind;                    // "FloatStorage"
  int64_t elements = 0;                // number of elements of the storage
  int64_t offset = 0;                  // index of the first element in the storage
  std::vector<int64_t> shape, strides; // strides in elements
};

// Returns the tensors of a dict of names and tensors, in the order of the dict. Fails with
// data_loss for a broken pickle, with unimplemented, naming the opcode or the global, for a pickle
// with other content. `file` names the pickle in errors.
std::vector<PickledTensor> parse_tensor_pickle(std::string_view pickle, const std::string& file);

} // namespace dllm::ckpt
