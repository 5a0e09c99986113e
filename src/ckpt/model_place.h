#pragma once
// Finds the files of a model. A path may name a model folder, one file, a checkpoint or a run.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dllm::ckpt {

// The folder of a checkpoint with the tokenizer's files, when the base is stored by reference: the
// run may have another tokenizer than the base.
inline constexpr const char* kTokenizerFolder = "tokenizer";

// Where the parts of a model are stored.
struct ModelPlace {
  // A base that a checkpoint stores by reference: its run read it from `base` and did not train it.
  struct Reference {
    std::string digest;                         // of the files when the run began
    std::map<std::string, std::string> formats; // of each parameter in the run, by name
  };
  // How a run used a base that it did not train.
  struct Use {
    std::string config;        // of the base in the run, as JSON
    std::string where;         // the file that says so
    bool has_new_mask = false; // the run added a row for the mask token to the base
  };
  struct Adapter {
    std::string name;   // "adapter:math"
    std::string folder; // in the files of PEFT
    std::string digest; // of an adapter by reference, when the run began; else empty

    bool is_reference() const { return !digest.empty(); }
  };

  // A network other than the base, such as an encoder.
  struct Network {
    std::string name;
    std::string folder; // or a file
    std::optional<Reference> reference;
    std::optional<Use> use; // with a reference
  };

  std::string base;       // a folder or a file
  std::string checkpoint; // its folder; empty: the path names no checkpoint
  std::string tokenizer;  // kTokenizerFolder of a checkpoint; empty: the base has the tokenizer
  std::optional<Reference> reference;
  std::optional<Use> use;        // with a reference
  std::vector<Adapter> adapters; // of a checkpoint, in the order of its parts
  std::vector<Network> networks; // the same, without the base
  std::string objective;         // of the run that made a checkpoint; empty: not known
};

// Returns the place of the model that `path` names. For a run this is the model of the latest
// checkpoint, for a checkpoint its own model, else `path` itself. Fails with not_found for a run
// without a valid checkpoint, and with data_loss for a damaged list of parts.
ModelPlace model_place(const std::string& path);
// Returns the folder or file of the base.
std::string model_folder(const std::string& path);
// Returns the folder or file of its tokenizer. If the base has none, or the run has no valid
// checkpoint, it is the tokenizer in `path` itself.
std::string tokenizer_folder(const std::string& path);

// Calls `read`, which reads the latest checkpoint of the run at `path`. Calls it again when it
// failed because a training removed this checkpoint meanwhile: the folder holds a newer one then.
void read_latest(const std::string& path, const std::function<void()>& read);

} // namespace dllm::ckpt
