#pragma once
// Saves a model: the folder and its replacement, the snapshot that is written, and the tokenizer's
// files.

#include "base/files.h"
#include "ckpt/gguf/gguf.h"
#include "model/adapters/adapter_sums.h"
#include "model/model.h"
#include "tensor/copy_pool.h"
#include "text/tokenizer.h"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dllm::model {

// The folder of a saved model: its files, and how a new folder replaces it. A save removes only
// files that a save wrote.

inline constexpr const char* kConfigFile = "config.json";
// How the run of a model read its rows. The program writes it.
inline constexpr const char* kRowsFile = "dllm_rows.json";
// Files of a model folder that load keeps as bytes and save writes again.
inline constexpr const char* kSideFiles[] = {"tokenizer.json",
                                             "tokenizer_config.json",
                                             "special_tokens_map.json",
                                             "generation_config.json",
                                             "added_tokens.json",
                                             "vocab.json",
                                             "merges.txt",
                                             "chat_template.jinja",
                                             kRowsFile};

// A folder holds a whole model, or an adapter in the files of PEFT.
enum class FolderKind { model, adapter };

// A folder that is filled before it replaces the folder at its final path. Its path is
// `folder`.partial until move_into_place(); a folder that is not moved is removed. Its config
// (config.json, or adapter_config.json) is its last file. Until then the folder holds the mark, the
// name of the config with ".partial", so that the next save recognizes the remains of a killed one.
// Of two saves to one path, in any processes, the second one waits.
class FolderSave {
public:
  // Fails with already_exists when something is at `folder` and overwrite is off. Fails with the
  // same code, naming the file, when `folder` or `folder`.partial holds a file that no save of
  // this kind wrote.
  FolderSave(std::string folder, bool overwrite, const Task* task = nullptr,
             FolderKind kind = FolderKind::model);
  ~FolderSave();
  FolderSave(const FolderSave&) = delete;
  FolderSave& operator=(const FolderSave&) = delete;

  const std::string& partial() const { return partial_; }
  // Moves the folder to its path durably. The old folder is removed only after the new one is in
  // place.
  void move_into_place(const std::string& config_text);

private:
  void lock_partial(const Task* task);
  void lock_replaced(const Task* task);

  FolderKind kind_;
  std::string folder_, partial_;
  std::unique_ptr<FolderLock> lock_;     // of `partial`, until the folder is moved
  std::unique_ptr<FolderLock> replaced_; // of the folder that is replaced
  bool moved_ = false;
};

// The data that a save writes, all from one moment, so that the model may change during the write.

// Decides when the numbers of trained parameters are copied. copied: now. keep_shared: the snapshot
// may share storage with the engine's arrays, and a later step copies an array before it writes to
// it. Frozen parameters are never written to and stay shared.
enum class SnapshotMode { keep_shared, copied };

// Assigns arrays to the processes that write them: each array goes to the process with the fewest
// bytes. All processes assign the same arrays in the same order.
class WriterShares {
public:
  explicit WriterShares(int64_t writers) : bytes_(static_cast<size_t>(writers)) {}
  int64_t writers() const { return std::ssize(bytes_); }
  int64_t writer_of(int64_t bytes);
  // Returns the writer of each layer of a stack; an array that is not a stack has one writer.
  std::vector<int64_t> writers_of(const ParamSpec& spec);

private:
  std::vector<int64_t> bytes_; // by writer
};

// One part of a model at one moment. With several processes all of them make the snapshot together;
// it is copied, and each process holds the layers of stacks that it writes.
class ModelSnapshot {
public:
  // `pool` provides the memory of the copies; null: new memory. merged: names of adapters, whose
  // products take() adds.
  ModelSnapshot(const Model& model, const std::string& part, SnapshotMode mode,
                WriterShares& shares, const Task* task, CopyPool* pool = nullptr,
                const std::vector<std::string>& merged = {});

  const Part& part() const { return part_; }
  const ModelConfig& config() const { return part_.config; }
  // Returns the side files of the base.
  const Model::SideFiles& side_files() const { return side_files_; }
  // Names as files have them.
  const std::vector<std::string>& names() const { return names_; }
  // Returns the first name of a stack, such as "model.embed_tokens.weight" of "embedding".
  // REQUIRES: the part has the stack.
  const std::string& name_in(const std::string& stack) const;
  // Returns the type that a save with dtype auto writes.
  DType dtype(const std::string& name) const;
  Shape shape(const std::string& name) const;
  int64_t writer(const std::string& name) const; // the process that holds it
  int64_t process() const { return process_; }   // this process
  // Returns one logical tensor that this process writes. Each tensor can be taken once. The last
  // tensor of a stack frees the memory of the stack.
  Tensor take(const std::string& name, const Task* task);

private:
  // The host copy of a stack: the whole stack, or one layer with several processes.
  struct Piece {
    Tensor values;
    int64_t writer = 0;
    int64_t left = 0; // tensors that are not taken yet
  };
  struct Stack {
    ParamSpec spec;
    std::vector<Piece> parts;
    // Buffers of a frozen stack, which is read later. `scale` is for int8 rows.
    graph::BufferRef frozen, scale;
    DType dtype = DType::f32;
    bool is_quantized = false;

    size_t index(int64_t layer) const { return parts.size() == 1 ? 0 : static_cast<size_t>(layer); }
    Piece& part(int64_t layer) { return parts[index(layer)]; }
  };
  static void deal(Stack& stack, const graph::BufferRef& values, const graph::Engine& engine,
                   WriterShares& shares, const Task* task, CopyPool* pool);
  struct Place {
    size_t stack = 0;
    size_t piece = 0;
    int64_t layer = 0;
  };
  int64_t process_ = 0;
  model::Part part_;
  Model::SideFiles side_files_;
  std::vector<std::string> names_;
  std::vector<Stack> stacks_;
  std::map<std::string, Place> places_;
  AdapterSums sums_;
};

// The base, and then the towers of the model.
using Snapshots = std::span<ModelSnapshot>;
// Writes a Hugging Face folder that appears complete or not at all. Consumes the snapshots. Towers
// are in the files of the base, under names that begin with their part.
void save_model(Snapshots snapshots, const std::string& folder, const Options& options,
                Task* task = nullptr);

// Warns that a folder or file of the base holds none of these networks. Leaves a teacher out of the
// warning, because no pass reads it.
void warn_of_left_out(const std::string& path, std::vector<std::string> networks);

// Writes the files of the tokenizer and of generation into a folder, and returns their names.
std::vector<std::string> write_side_files(const Model::SideFiles& files, const std::string& folder);
// Writes the same files into a folder that no other save may use. With several processes each one
// writes its weights, and the first one writes all other files too. Returns the names of the files
// that this process wrote. Consumes the snapshot.
std::vector<std::string> write_model_files(ModelSnapshot& snapshot, const std::string& folder,
                                           const Options& options, Task* task = nullptr);

// Returns a copy of a buffer's numbers on the host. The memory comes from the pool; it is new when
// the pool is null or the parts of the buffer were joined. The engine's threads copy.
Tensor read_copy(const graph::Buffer& buffer, const graph::Engine& engine, const Task* task,
                 CopyPool* pool);
// Returns copies of the rows that Buffer::read_dealt gives to this process, for an engine in
// several processes.
std::vector<Tensor> read_dealt_copies(const graph::Buffer& buffer, const graph::Engine& engine,
                                      std::span<const int64_t> owners, const Task* task,
                                      CopyPool* pool);
// Returns a logical tensor of a stack. `rows` holds the whole stack, or one layer.
Tensor read_piece_of(const ParamSpec& spec, size_t piece, int64_t layer, const Tensor& rows,
                     const Task* task);

// The files of the tokenizer, which every save of a model writes.

// Replaces tokenizer.json. Fails with invalid_argument when the tokenizer has more tokens than the
// model's vocabulary has rows.
void set_tokenizer(Model& model, const text::Tokenizer& tokenizer);

// Takes the tokenizer inside of a .gguf file. A model whose tokenizer cannot be used still loads.
// The reason is logged, and loading the tokenizer alone fails with the same message.
void set_gguf_tokenizer(Model& model, const Source& source);

// Sets the mask token. `wanted` is option mask_token: the text or the id of a token. With "" the
// config decides, then a usual name in the tokenizer files or in the GGUF vocabulary (`gguf` may be
// null). Fails with not_found for a text that is not a token.
void resolve_mask_token(Model& model, const std::string& wanted, const ckpt::GgufFile* gguf);

} // namespace dllm::model
