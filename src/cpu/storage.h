#pragma once
// Decides which values share storage: results in place, outputs, and donated inputs. It also
// assigns offsets in one block to pieces of memory.

#include "cpu/plan.h"

#include <cstdint>
#include <span>
#include <vector>

namespace dllm::cpu {

struct Piece {
  int64_t bytes = 0;
  int32_t begin = 0, end = 0; // first and last step that needs it, both included
  int64_t offset = -1;        // set by place_pieces()
};

// Sets the offsets, 64-byte aligned, and returns the size of the block. The largest piece is placed
// first; each piece goes to the smallest gap that fits.
int64_t place_pieces(std::span<Piece> pieces);

// Storage in the arena, the steps that need it, and the values that use it in turn.
struct ArenaPiece {
  int64_t bytes;
  int32_t begin, end;
  std::vector<int32_t> values;
};

class StoragePlanner {
public:
  StoragePlanner(Frame& frame, std::vector<int32_t> donations, std::vector<bool> brief);

  // Assigns storage with the remaining donations. Returns false when some donations are not
  // possible; these are withdrawn, and assign() must be called again.
  bool assign();
  // Writes the places, copies, takes_over, in_arena and first_overwrite into the frame. REQUIRES:
  // assign() has returned true.
  void write_places();
  std::vector<ArenaPiece> arena_pieces() const;

private:
  struct Storage {
    int64_t bytes = 0;
    int32_t begin = -1, end = -1; // steps
    Place::Kind kind = Place::kArena;
    int32_t index = -1; // as Place::index; in the arena: the output that stays there
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
  std::vector<bool> brief_;         // by output
  std::vector<int32_t> donated_to_; // by input: output or -1
  std::vector<int32_t> last_read_;  // by value
  std::vector<int32_t> storage_of_; // by value
  std::vector<Storage> storages_;
  std::vector<int32_t> takes_over_; // by output
  std::vector<bool> in_arena_;      // by output
  std::vector<Copy> copies_;
  int32_t first_overwrite_ = INT32_MAX;
};

} // namespace dllm::cpu
