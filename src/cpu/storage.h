#pragma once
// Which values share storage (in-place results, outputs written to their destination, donated inputs), and offsets in one
// block for pieces of memory.

#include "cpu/plan.h"

#include <cstdint>
#include <span>
#include <vector>

namespace dllm::cpu {

struct Piece {
  int64_t bytes = 0;
  int32_t begin = 0, end = 0; // first and last step that needs it, both included
  int64_t offset = -1;        // answer
};

// Fills the offsets (64-byte aligned) and returns the size of the block. Largest first, best
// fit.
int64_t place_pieces(std::span<Piece> pieces);

// Storage in the arena and the values that use it one after the other.
struct ArenaPiece {
  int64_t bytes;
  int32_t begin, end;
  std::vector<int32_t> values;
};

class StoragePlanner {
public:
  StoragePlanner(Frame& frame, std::vector<int32_t> donations);

  // Tries the donations that are left. False: some did not work out and are withdrawn; try again.
  bool assign();
  // After assign() was true: places of inputs and outputs, copies, takes_over, first_overwrite.
  void write_places();
  std::vector<ArenaPiece> arena_pieces() const;

private:
  struct Storage {
    int64_t bytes = 0;
    int32_t begin = -1, end = -1; // steps
    Place::Kind kind = Place::kArena;
    int32_t index = -1;
  };

  void find_last_reads();
  void assign_inputs();
  void assign_step(int32_t time);
  int32_t storage_to_overwrite(int32_t time, size_t output,
                               const std::vector<int32_t>& taken) const;
  bool may_take(int32_t time, size_t input, size_t output, const std::vector<int32_t>& taken) const;
  bool assign_outputs();
  bool claim_output(size_t output);

  int32_t root(int32_t value) const { return frame_.source[static_cast<size_t>(value)]; }
  int64_t bytes_of(int32_t value) const;
  int32_t& storage_of(int32_t value) { return storage_of_[static_cast<size_t>(root(value))]; }
  int32_t storage_of(int32_t value) const { return storage_of_[static_cast<size_t>(root(value))]; }

  Frame& frame_;
  std::vector<int32_t> donations_;  // by output
  std::vector<int32_t> donated_to_; // by input: output or -1
  std::vector<int32_t> last_read_;  // by value
  std::vector<int32_t> storage_of_; // by value
  std::vector<Storage> storages_;
  std::vector<int32_t> takes_over_; // by output
  std::vector<Copy> copies_;
  int32_t first_overwrite_ = INT32_MAX;
};

} // namespace dllm::cpu
