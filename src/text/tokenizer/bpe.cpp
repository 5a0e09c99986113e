#include "text/tokenizer/token_model.h"

#include "base/error.h"
#include "text/json_reader.h"
#include "text/unicode.h"

#include <algorithm>
#include <array>
#include <queue>

namespace dllm::text {

namespace {
constexpr size_t kShortWord = 24; // symbols; below, looking at every pair beats a heap
}

// Symbols form a list through `next` and `prev` (indices, -1: end).
struct Bpe::Symbol {
  int32_t id;
  int32_t prev;
  int32_t next;
  bool alive = true;
};

Bpe::Bpe(std::shared_ptr<const Vocabulary> vocabulary, std::vector<Merge> merges,
         BpeSettings settings)
    : vocabulary_(std::move(vocabulary)), merges_(std::move(merges)),
      settings_(std::move(settings)) {
  for (const Merge& m : merges_) steps_[pair_key(m.left, m.right)] = {m.rank, m.result};
  for (char32_t code = 0; code < small_.size(); ++code)
    small_[code] = vocabulary_->find(to_utf8(code));
  for (size_t byte = 0; byte < bytes_.size(); ++byte) {
    bytes_[byte] = vocabulary_->find(byte_token(static_cast<unsigned char>(byte)));
  }
  if (!settings_.unk.empty()) {
    unk_ = vocabulary_->find(settings_.unk);
    if (unk_ < 0) fail(Code::data_loss, "unk_token {} is not in the vocabulary", settings_.unk);
  }
}

std::string_view Bpe::with_affixes(std::string_view piece, bool first, bool last,
                                   std::string& buffer) const {
  const bool prefix = !first && !settings_.subword_prefix.empty();
  const bool suffix = last && !settings_.word_suffix.empty();
  if (!prefix && !suffix) return piece;
  buffer.assign(prefix ? settings_.subword_prefix : "").append(piece);
  if (suffix) buffer += settings_.word_suffix;
  return buffer;
}

void Bpe::start(std::string_view word, std::vector<Symbol>& symbols) const {
  const auto push = [&symbols](int32_t id) {
    const auto at = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, at - 1, at + 1});
  };
  std::string buffer;
  bool after_unk = false;
  for (size_t at = 0; at < word.size();) {
    const Char c = char_at(word, at);
    const auto size = static_cast<size_t>(c.size);
    const std::string_view bare = word.substr(at, size);
    const std::string_view piece = with_affixes(bare, at == 0, at + size == word.size(), buffer);
    const bool is_small = piece.size() == size && c.code < small_.size();
    const int32_t id = is_small ? small_[c.code] : vocabulary_->find(piece);
    at += size;
    if (id >= 0) {
      push(id);
      after_unk = false;
      continue;
    }
    const auto has_byte = [this](char b) { return bytes_[static_cast<unsigned char>(b)] >= 0; };
    if (settings_.byte_fallback && std::all_of(piece.begin(), piece.end(), has_byte)) {
      for (char b : piece) push(bytes_[static_cast<unsigned char>(b)]);
      after_unk = false;
    } else if (unk_ >= 0 && !(after_unk && settings_.fuse_unk)) {
      push(unk_);
      after_unk = true;
    }
  }
  if (!symbols.empty()) symbols.back().next = -1;
}

void Bpe::merge_short(std::vector<Symbol>& symbols) const {
  // ranks[i]: of the pair (i, i + 1); symbols stay packed at the front.
  size_t count = symbols.size();
  const Step* steps[kShortWord];
  for (size_t i = 0; i + 1 < count; ++i) steps[i] = step(symbols[i].id, symbols[i + 1].id);
  while (count > 1) {
    size_t best = count;
    for (size_t i = 0; i + 1 < count; ++i) {
      if (steps[i] != nullptr && (best == count || steps[i]->rank < steps[best]->rank)) best = i;
    }
    if (best == count) break;
    symbols[best].id = steps[best]->result;
    for (size_t i = best + 1; i + 1 < count; ++i) {
      symbols[i] = symbols[i + 1];
      steps[i] = steps[i + 1];
    }
    --count;
    if (best > 0) steps[best - 1] = step(symbols[best - 1].id, symbols[best].id);
    if (best + 1 < count) steps[best] = step(symbols[best].id, symbols[best + 1].id);
  }
  symbols.resize(count);
}

void Bpe::merge_long(std::vector<Symbol>& symbols, const Task* task) const {
  struct Candidate {
    int32_t rank;
    int32_t at;
    int32_t result;
    bool operator<(const Candidate& other) const { // priority_queue: the greatest comes first
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  std::priority_queue<Candidate> queue;
  const auto consider = [&](int32_t at) {
    if (at < 0) return;
    const Symbol& left = symbols[static_cast<size_t>(at)];
    if (left.next < 0) return;
    const Step* s = step(left.id, symbols[static_cast<size_t>(left.next)].id);
    if (s != nullptr) queue.push({s->rank, at, s->result});
  };
  constexpr size_t kChecked = 4096; // candidates between two checks of the task
  for (size_t i = 0; i + 1 < symbols.size(); ++i) {
    if (i % kChecked == 0) check_task(task);
    consider(static_cast<int32_t>(i));
  }
  for (size_t taken = 0; !queue.empty(); ++taken) {
    if (taken % kChecked == 0) check_task(task);
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[static_cast<size_t>(best.at)];
    if (!left.alive || left.next < 0) continue;
    Symbol& right = symbols[static_cast<size_t>(left.next)];
    const Step* s = step(left.id, right.id);
    if (s == nullptr || s->result != best.result || s->rank != best.rank)
      continue; // the pair has changed
    left.id = best.result;
    left.next = right.next;
    right.alive = false;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].prev = best.at;
    consider(left.prev);
    consider(best.at);
  }
  symbols.erase(
      std::remove_if(symbols.begin(), symbols.end(), [](const Symbol& s) { return !s.alive; }),
      symbols.end());
}

void Bpe::encode(std::string_view word, const WordOptions& options,
                 std::vector<int32_t>& out) const {
  if (settings_.ignore_merges) {
    const int32_t whole = vocabulary_->find(word);
    if (whole >= 0 && (options.allow_special || !is_special(whole))) {
      out.push_back(whole);
      return;
    }
  }
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  start(word, symbols);
  if (symbols.size() > kShortWord) {
    merge_long(symbols, options.task);
  } else {
    merge_short(symbols);
  }
  for (const Symbol& s : symbols) out.push_back(s.id);
}

std::string Bpe::to_json() const {
  const auto text = [](const std::string& value) {
    return value.empty() ? "null" : json_string(value);
  };
  std::string out = fmt::format(
      R"({{"type":"BPE","dropout":null,"unk_token":{},"continuing_subword_prefix":{},"end_of_word_suffix":{},)"
      R"("fuse_unk":{},"byte_fallback":{},"ignore_merges":{},"vocab":)",
      text(settings_.unk), text(settings_.subword_prefix), text(settings_.word_suffix),
      settings_.fuse_unk, settings_.byte_fallback, settings_.ignore_merges);
  out += vocabulary_json(*vocabulary_);
  out += ",\"merges\":[";
  for (size_t i = 0; i < merges_.size(); ++i) {
    out += fmt::format("{}[{},{}]", i == 0 ? "" : ",",
                       json_string(vocabulary_->token(merges_[i].left)),
                       json_string(vocabulary_->token(merges_[i].right)));
  }
  return out + "]}";
}

namespace {

struct Alphabet {
  std::array<char32_t, 256> chars{};
  std::array<int, 0x144> bytes{}; // U+0143 is the last one used
};

constexpr Alphabet make_alphabet() {
  Alphabet a;
  for (int& byte : a.bytes) byte = -1;
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    const char32_t code = printable ? static_cast<char32_t>(byte) : next++;
    a.chars[static_cast<size_t>(byte)] = code;
    a.bytes[code] = byte;
  }
  return a;
}

constexpr Alphabet kAlphabet = make_alphabet();

} // namespace

char32_t byte_char(unsigned char byte) {
  return kAlphabet.chars[byte];
}

int char_byte(char32_t code) {
  return code < kAlphabet.bytes.size() ? kAlphabet.bytes[code] : -1;
}

void append_byte_chars(std::string& out, std::string_view bytes) {
  for (char c : bytes) append_utf8(out, byte_char(static_cast<unsigned char>(c)));
}

bool append_bytes(std::string& out, std::string_view token) {
  const size_t before = out.size();
  for (size_t at = 0; at < token.size();) {
    const Char c = char_at(token, at);
    const int byte = c.valid ? char_byte(c.code) : -1;
    if (byte < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(static_cast<char>(byte));
    at += static_cast<size_t>(c.size);
  }
  return true;
}

} // namespace dllm::text
