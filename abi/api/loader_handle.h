#pragma once
#include "check.h"
#include "dllm/loader.h"
#include "guard.h"
#include "text/loader.h"

struct dllm_loader : dllm::abi::Handle<dllm::abi::Kind::loader> {
  dllm_loader(std::shared_ptr<const dllm::text::Dataset> data, const dllm::Options& options)
      : object(std::move(data), options) {}
  dllm::text::Loader object;
};
