#pragma once
// Learns a byte-level BPE vocabulary from texts: the most frequent pair of neighbours becomes a
// token, again and again (Sennrich et al. 2016). The same texts and options give the same file on
// every machine.

#include "base/options.h"
#include "text/dataset.h"
#include "text/tokenizer.h"

#include <memory>

namespace dllm {
class Task;
}

namespace dllm::text {

// vocab_size, pre_tokenizer, normalizer, min_count, max_token_bytes, bos, eos, pad, mask,
// special_tokens.
const Schema& tokenizer_train_schema();

// Special tokens get the first numbers, the 256 bytes the next, then merges in order. Stops early
// when no pair is left that occurs `min_count` times. Fails with failed_precondition unless `texts`
// is a dataset of texts.
std::shared_ptr<Tokenizer> train_tokenizer(const Dataset& texts, const Options& options,
                                           Task* task);

} // namespace dllm::text
