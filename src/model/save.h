#pragma once
// The files of a saved model: its folder and how a new one takes its place, the snapshot that is written there, and the
// tokenizer's files.

#include "base/files.h"
#include "ckpt/gguf.h"
#include "model/model.h"
#include "tensor/copy_pool.h"
#include "text/tokenizer.h"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dllm::model {

// The folder a model is saved in: what a save writes there, and how a new one takes its place. Only what a save wrote
// is ever removed.

inline constexpr const char* kConfigFile = "config.json";
// Files of a model folder that are not read here but written back.
inline constexpr const char* kSideFiles[] = {"tokenizer.json",
                                             "tokenizer_config.json",
                                             "special_tokens_map.json",
                                             "generation_config.json",
                                             "added_tokens.json",
                                             "vocab.json",
                                             "merges.txt",
                                             "chat_template.jinja"};

// A folder that is filled next to its place. It is `folder`.partial until move_into_place(); what is not moved is
// removed. config.json is its last file: until then it holds the mark config.json.partial, by which the next save
// finds what a killed one left. Of two saves to one place, in any two processes, the second waits.
class FolderSave {
public:
  // already_exists when something is at `folder` and overwrite is off, or when it or `folder`.partial holds a file
  // that no save wrote; names the file.
  FolderSave(std::string folder, bool overwrite, const Task* task = nullptr);
  ~FolderSave();
  FolderSave(const FolderSave&) = delete;
  FolderSave& operator=(const FolderSave&) = delete;

  const std::string& partial() const { return partial_; }
  // Durable; what was there is removed only when the new folder stands.
  void move_into_place(const std::string& config_text);

private:
  void lock_partial(const Task* task);
  void lock_replaced(const Task* task);

  std::string folder_, partial_;
  std::unique_ptr<FolderLock> lock_;     // of `partial`; held until the folder is in its place
  std::unique_ptr<FolderLock> replaced_; // of the folder that was there before
  bool moved_ = false;
};

// What a save writes of a model: everything of one moment, so that the model may change while it is being written.

// Trained parameters keep_shared: their numbers may share storage with the engine's arrays. A step that follows then
// copies an array before it writes over it. copied: they are copied now. Frozen parameters are never written over and
// stay shared.
enum class SnapshotMode { keep_shared, copied };

// Which of several processes writes an array: the one that has the fewest bytes so far. All processes ask for the same
// arrays in the same order.
class WriterShares {
public:
  explicit WriterShares(int64_t writers) : bytes_(static_cast<size_t>(writers)) {}
  int64_t writers() const { return std::ssize(bytes_); }
  int64_t writer_of(int64_t bytes);
  // The writers of the layers of a stack, or of an array that is none: of one.
  std::vector<int64_t> writers_of(const ParamSpec& spec);

private:
  std::vector<int64_t> bytes_; // by writer
};

// One part of a model. Of an engine in several processes all make it, as copied, and each holds the layers of stacks that
// it writes.
class ModelSnapshot {
public:
  // pool: of the copies; null: new memory.
  ModelSnapshot(const Model& model, const std::string& part, SnapshotMode mode,
                WriterShares& shares, const Task* task, CopyPool* pool = nullptr);

  const Part& part() const { return part_; }
  const ModelConfig& config() const { return part_.config; }
  const Model::SideFiles& side_files() const { return side_files_; } // of the base
  const std::vector<std::string>& names() const { return names_; }   // as files have them
  DType dtype(const std::string& name) const; // as a save with dtype auto writes it
  Shape shape(const std::string& name) const;
  int64_t writer(const std::string& name) const; // the process that has it
  int64_t process() const { return process_; }   // this one
  // One logical tensor that this process writes. The last tensor of a stack gives the memory of the stack back: each is
  // taken once.
  Tensor take(const std::string& name, const Task* task);

private:
  // What is on the host of a stack: all of it, or of several processes one layer.
  struct Piece {
    Tensor values;
    int64_t writer = 0;
    int64_t left = 0; // tensors that were not taken yet
  };
  struct Stack {
    ParamSpec spec;
    std::vector<Piece> parts;
    graph::BufferRef frozen, scale; // of a frozen one that is read later; scale: of int8 rows
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
};

// A Hugging Face folder that appears whole or not at all. Uses the snapshot up.
void save_model(ModelSnapshot& snapshot, const std::string& folder, const Options& options,
                Task* task = nullptr);

// The same files in a folder that belongs to this save alone: of several processes each writes its weights, the first
// everything else too. Returns the names of those that this process wrote. Uses the snapshot up.
std::vector<std::string> write_model_files(ModelSnapshot& snapshot, const std::string& folder,
                                           const Options& options, Task* task = nullptr);

// The numbers of a buffer on the host, in storage of their own: of the pool, or new (null, or parts that were joined).
// The engine's threads copy them.
Tensor read_copy(const graph::Buffer& buffer, const graph::Engine& engine, const Task* task,
                 CopyPool* pool);
// The same of several processes: rows that were dealt out (Buffer::read_dealt), those of this process in storage of their
// own.
std::vector<Tensor> read_dealt_copies(const graph::Buffer& buffer, const graph::Engine& engine,
                                      std::span<const int64_t> owners, const Task* task,
                                      CopyPool* pool);
// A logical tensor of a stack of which `rows` holds all, or one layer.
Tensor read_piece_of(const ParamSpec& spec, size_t piece, int64_t layer, const Tensor& rows,
                     const Task* task);

// The tokenizer's files that every save of a model writes.

// Replaces tokenizer.json. Fails with invalid_argument for more tokens than the model's vocabulary has rows.
void set_tokenizer(Model& model, const text::Tokenizer& tokenizer);

// The same for the tokenizer inside a .gguf file. A model whose tokenizer cannot be used still loads: the reason is
// logged, and loading the tokenizer alone fails with the same message.
void set_gguf_tokenizer(Model& model, const Source& source);

// wanted: option mask_token, a token's text or id; "": the config's, else a token with a usual name
// in the tokenizer files or the GGUF vocabulary (may be null). Fails with not_found for a text that
// is no token.
void resolve_mask_token(Model& model, const std::string& wanted, const ckpt::GgufFile* gguf);

} // namespace dllm::model
