#include "text/answer/answer.h"

#include "base/error.h"
#include "text/answer/growing_text.h"
#include "text/unicode.h"

#include <algorithm>
#include <charconv>

namespace dllm::text {
namespace {

// A model may have more tokens than its tokenizer, so any id is accepted.
int32_t parse_stop(const std::string& text) {
  int32_t id = -1;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), id);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size() || id < 0) {
    fail_with_hint("option stop takes token ids, and option stop_texts takes texts",
                   Code::invalid_argument, "option stop holds \"{}\", which is not a token id",
                   replace_invalid(std::string_view(text).substr(0, 40)));
  }
  return id;
}

std::vector<int32_t> end_ids(const Tokenizer& tokenizer, const Options& options) {
  std::vector<int32_t> ids;
  if (options.boolean("end_tokens")) ids = tokenizer.ends();
  for (const std::string& text : options.list("stop")) ids.push_back(parse_stop(text));
  return ids;
}

bool is_utf8_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

} // namespace

const Schema& answer_schema() {
  static const Schema schema = [] {
    std::vector<OptionSpec> keys = {
        option_i64("begin", 0, -1, int64_t{1} << 40,
                   "Positions of the canvas before the answer; -1: the whole canvas is the answer, "
                   "and only its last position ends it."),
        option_choice("prompt", "before", {"apart", "before", "included"},
                      "before: the answer continues the text of the prompt, with the space that a "
                      "word begins with; apart: as a text of its own; included: the text of the "
                      "prompt comes first."),
        option_bool("end_tokens", true, "The end tokens of the tokenizer's files end an answer."),
        option_ids("stop", "Token ids that end an answer.")};
    for (OptionSpec& key : end_options(EndsOf::answer)) keys.push_back(std::move(key));
    return Schema("answer", std::move(keys));
  }();
  return schema;
}

Answer::Answer(std::shared_ptr<const Tokenizer> tokenizer, const Options& options)
    : Answer(std::move(tokenizer), options,
             std::make_shared<const TextEnds>(options, EndsOf::answer)) {}

Answer::Answer(std::shared_ptr<const Tokenizer> tokenizer, const Options& options,
               std::shared_ptr<const TextEnds> ends)
    : tokenizer_(std::move(tokenizer)), begin_(options.i64("begin")),
      ends_(end_ids(*tokenizer_, options)), start_(tokenizer_->encode("")),
      text_ends_(std::move(ends)), texts_(tokenizer_) {
  const std::string& prompt = options.str("prompt");
  prompt_ = prompt == "apart"    ? Prompt::apart
            : prompt == "before" ? Prompt::before
                                 : Prompt::included;
  const SpecialIds& special = tokenizer_->special();
  silent_ = {special.mask};
  if (begin_ >= 0) return;
  // A hole has no place after it where its end could be.
  silent_.insert(silent_.end(), ends_.begin(), ends_.end());
  silent_.insert(silent_.end(), {special.eos, special.pad});
  ends_.clear();
  text_ends_ = std::make_shared<const TextEnds>();
}

bool Answer::has_text(size_t position) const {
  const bool is_given = position < first_position() || states_[position] == PositionState::fixed;
  return is_given || std::ranges::find(silent_, ids_[position]) == silent_.end();
}

// Takes `count` ids from `first` on, and returns the ids that have a text.
std::vector<int32_t> Answer::with_text(size_t first, size_t count) const {
  std::vector<int32_t> ids;
  for (size_t i = first; i < first + count; ++i) {
    if (has_text(i)) ids.push_back(ids_[i]);
  }
  return ids;
}

AnswerEnd Answer::update(std::vector<int32_t> ids, std::vector<PositionState> states) {
  ids_ = std::move(ids);
  states_ = std::move(states);
  final_ = read(count_decided(false));
  return final_.end;
}

// Returns the first position of the answer.
size_t Answer::first_position() const {
  return std::min(static_cast<size_t>(std::max<int64_t>(begin_, 0)), ids_.size());
}

// Returns the number of positions before the first one of the answer that is masked, or also
// provisional.
size_t Answer::count_decided(bool with_provisional) const {
  const auto first = states_.begin() + static_cast<std::ptrdiff_t>(first_position());
  const auto open = std::find_if(first, states_.end(), [&](PositionState state) {
    return state == PositionState::masked ||
           (state == PositionState::provisional && !with_provisional);
  });
  return static_cast<size_t>(open - states_.begin());
}

// Returns the first position whose text is read. The ids that begin every text are left out.
size_t Answer::first_read() const {
  if (begin_ >= 0 && prompt_ == Prompt::apart) return first_position();
  const size_t most = begin_ < 0 ? ids_.size() : first_position();
  const bool is_there =
      start_.size() <= most && std::ranges::equal(start_, std::span(ids_).first(start_.size()));
  return is_there ? start_.size() : 0;
}

// Returns the number of leading bytes of `text` that are the prompt's. A character that the prompt
// begins and the answer completes belongs to the answer.
size_t Answer::prompt_bytes(std::string_view text) const {
  if (begin_ < 0 || prompt_ == Prompt::apart) return 0;
  const size_t first = first_read();
  const GrowingText prompt = read_growing(*tokenizer_, with_text(first, first_position() - first));
  size_t bytes = std::min(prompt.shown, text.size());
  while (bytes < text.size() && is_utf8_continuation(text[bytes])) ++bytes;
  return bytes;
}

// Reads the answer when the first `count` positions are decided.
Answer::Reading Answer::read(size_t count) const {
  const std::span<const int32_t> ids(ids_);
  const size_t first = first_read();
  const auto decided = ids.first(count);
  const auto stop =
      std::find_first_of(decided.begin() + static_cast<std::ptrdiff_t>(first_position()),
                         decided.end(), ends_.begin(), ends_.end());
  const auto length = static_cast<size_t>(stop - decided.begin());
  Reading reading;
  if (length < count)
    reading.end = AnswerEnd::end_token;
  else if (count == ids_.size())
    reading.end = AnswerEnd::full;
  const GrowingText growing = read_growing(*tokenizer_, with_text(first, length - first));
  const bool is_over = reading.end != AnswerEnd::open;
  std::string_view text = growing.text;
  if (!is_over) text = text.substr(0, growing.shown);
  const size_t prompt = prompt_bytes(text);
  reading.sure = is_over ? text.size() : growing.sure;
  if (const size_t cut = text_ends_->find(text, prompt); cut != std::string_view::npos) {
    text = text.substr(0, cut);
    reading.sure = cut;
    reading.end = AnswerEnd::stop_text;
  } else if (!is_over) {
    reading.sure -= text_ends_->held(text.substr(0, reading.sure), prompt);
  }
  const size_t left_out = prompt_ == Prompt::included ? 0 : prompt;
  reading.text = text.substr(left_out);
  reading.sure = std::max(reading.sure, left_out) - left_out;
  return reading;
}

std::string Answer::text() const {
  // Positions after the end do not count, also where their tokens change what is before them.
  if (final_.end != AnswerEnd::open) return final_.text;
  return read(count_decided(true)).text;
}

std::string Answer::next(Reader reader) {
  std::string& returned = returned_[static_cast<size_t>(reader)];
  const std::string_view sure = std::string_view(final_.text).substr(0, final_.sure);
  if (sure.starts_with(returned)) {
    std::string more(sure.substr(returned.size()));
    returned = sure;
    return more;
  }
  // Positions that are open again may get the same tokens.
  if (final_.end == AnswerEnd::open && std::string_view(returned).starts_with(sure)) return "";
  const auto changed = std::ranges::mismatch(sure, returned).in1 - sure.begin();
  fail_with_hint("read the whole text where final positions may change", Code::failed_precondition,
                 "byte {} of the answer has changed, and {} bytes were returned", changed,
                 returned.size());
}

} // namespace dllm::text
