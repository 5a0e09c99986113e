#pragma once
#include "check.h"
#include "decode/decoder/decoder.h"
#include "dllm/decoder.h"
#include "guard.h"

struct dllm_decoder : dllm::abi::Handle<dllm::abi::Kind::decoder> {
  dllm_decoder(std::shared_ptr<dllm::model::Model> model, const dllm::Options& options)
      : object(std::move(model), options) {}
  dllm::decode::Decoder object;
};
