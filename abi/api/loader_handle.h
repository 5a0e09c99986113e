#pragma once
#include "check.h"
#include "dllm/loader.h"
#include "guard.h"
#include "text/loader.h"
#include "train/batch_source.h"

struct dllm_loader : dllm::abi::Handle<dllm::abi::Kind::loader> {
  dllm_loader(std::shared_ptr<const dllm::text::Dataset> data, const dllm::Options& options)
      : object(std::move(data), options) {}
  dllm::text::Loader object;
};

namespace dllm::abi {

// `train` does not see `text`: a loader reaches it as a source of batches.
class LoaderSource final : public train::BatchSource {
 public:
  explicit LoaderSource(text::Loader& loader) : loader_(loader) {}
  std::optional<Batch> next() override { return loader_.try_next(); }
  int64_t position() const override { return loader_.position(); }
  void seek(int64_t position) override { loader_.seek(position); }
  double bytes_per_token() const override { return loader_.bytes_per_token(); }

 private:
  text::Loader& loader_;
};

}  // namespace dllm::abi
