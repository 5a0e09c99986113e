#pragma once
// Networks whose files are open: the base of a model, and the other networks of a checkpoint. Files
// are opened and checked before anything is allocated.

#include "base/files.h"
#include "base/options.h"
#include "base/task.h"
#include "ckpt/model_place.h"
#include "model/files/load_parameters.h"
#include "model/files/weights.h"
#include "model/model.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dllm::model {

class OpenedNetwork {
public:
  // Opens the network that `place` has as its base. The references outlive this object.
  OpenedNetwork(const graph::Engine& engine, const Source& source, const Options& options,
                const ckpt::ModelPlace& place, const std::string& part, Task* task);

  int64_t bytes() const; // of its files
  // Returns a model of this network alone, and adds the bytes of its files to `count.before`.
  std::shared_ptr<Model> load(const std::shared_ptr<graph::Engine>& engine, OtherBytes& count,
                              Task* task);

private:
  const Source& source_;
  const Options& options_;
  const ckpt::ModelPlace& place_;
  OpenedModel opened_;
  std::unique_ptr<WeightSource> weights_;
  std::vector<ParamSpec> specs_; // on the mesh of the engine
};

// A network of a checkpoint other than the base, opened before the weights of the base.
class OtherNetwork {
public:
  OtherNetwork(const graph::Engine& engine, const Options& options, const ckpt::ModelPlace& place,
               const ckpt::ModelPlace::Network& network, Task* task);

  int64_t bytes() const { return opened_.bytes(); }
  // Adds the network to the model, and the bytes of its files to `count.before`.
  void add_to(Model& model, OtherBytes& count, Task* task);

private:
  std::string name_;
  Options options_;
  ckpt::ModelPlace place_;
  std::unique_ptr<Source> source_;
  OpenedNetwork opened_; // refers to the members above
};

// Opens the networks that passes of a model may read. A teacher is left out.
std::vector<std::unique_ptr<OtherNetwork>> open_networks(const graph::Engine& engine,
                                                         const Options& options,
                                                         const ckpt::ModelPlace& place, Task* task);

// Returns true when the base gets the row of the mask token that the run of a checkpoint added.
bool has_new_mask(const ckpt::ModelPlace& place, const Options& options);

} // namespace dllm::model
