#include "mutator.h"

#include <algorithm>
#include <cstring>

namespace dllm::hostile {
namespace {

// What length fields are overwritten with.
uint64_t odd_number(Draw& draw, uint64_t size) {
  const uint64_t numbers[] = {
      0,          1,          size,       size - 1,   size + 1,         0x7f,
      0xff,       0x7fffffff, 0x80000000, 0xffffffff, 0x100000000ULL,   1ULL << 40,
      1ULL << 62, 1ULL << 63, ~0ULL,      ~0ULL - 7,  ~0ULL - size + 1, 65536,
      16777217};
  return numbers[draw.below(std::size(numbers))];
}

std::string flip_bits(std::string bytes, Draw& draw) {
  for (size_t count = 1 + draw.below(8); count > 0; --count)
    bytes[draw.below(bytes.size())] ^= static_cast<char>(1u << draw.below(8));
  return bytes;
}

std::string overwrite_length(std::string bytes, Draw& draw) {
  const size_t width = draw.below(2) == 0 ? 4 : 8;
  if (bytes.size() < width) return bytes;
  // Lengths stand near the beginning more often than not.
  const size_t reach = draw.below(2) == 0 ? std::min<size_t>(bytes.size() - width + 1, 64)
                                          : bytes.size() - width + 1;
  const uint64_t number = odd_number(draw, bytes.size());
  std::memcpy(bytes.data() + draw.below(reach), &number, width);
  return bytes;
}

std::string move_slice(std::string bytes, Draw& draw) {
  const size_t begin = draw.below(bytes.size()),
               length = 1 + draw.below(std::min<size_t>(bytes.size() - begin, 256));
  const std::string slice = bytes.substr(begin, length);
  switch (draw.below(3)) {
  case 0: return bytes.erase(begin, length);
  case 1: return bytes.insert(draw.below(bytes.size()), slice);
  default:
    return bytes.replace(begin, length, std::string(length, draw.below(2) == 0 ? '\0' : '\xff'));
  }
}

// Places right before a value: behind ':' of an object, behind '[' and ',' of a list.
std::vector<size_t> value_places(const std::string& text) {
  std::vector<size_t> places;
  std::string open;
  bool inside = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (inside && c == '\\')
      ++i;
    else if (c == '"')
      inside = !inside;
    if (inside) continue;
    if (c == '{' || c == '[')
      open += c;
    else if ((c == '}' || c == ']') && !open.empty())
      open.pop_back();
    const bool in_list = open.ends_with('[');
    if (c == ':' || c == '[' || (c == ',' && in_list)) places.push_back(i + 1);
  }
  return places;
}

// The end of the value that begins at `begin`, perhaps behind blanks.
size_t value_end(const std::string& text, size_t begin) {
  int depth = 0;
  bool inside = false;
  for (size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (inside) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        inside = false;
      continue;
    }
    if (c == '"')
      inside = true;
    else if (c == '{' || c == '[')
      ++depth;
    else if (c == '}' || c == ']') {
      if (depth == 0) return i;
      --depth;
    } else if (c == ',' && depth == 0)
      return i;
  }
  return text.size();
}

std::string repeated(std::string_view part, size_t count) {
  std::string text;
  for (; count > 0; --count) text += part;
  return text;
}

std::string odd_value(Draw& draw) {
  const std::string values[] = {"null",
                                "true",
                                "false",
                                "0",
                                "-1",
                                "1",
                                "2147483648",
                                "-2147483649",
                                "9223372036854775807",
                                "9223372036854775808",
                                "18446744073709551615",
                                "18446744073709551616",
                                "1e308",
                                "1e999",
                                "-1e999",
                                "1e-320",
                                "0.1",
                                "-0",
                                "00",
                                "+1",
                                "NaN",
                                "Infinity",
                                "\"\"",
                                "\"x\"",
                                "\"\\u0000\"",
                                "\"\\ud800\"",
                                "\"\xff\xfe\"",
                                "[]",
                                "{}",
                                "[[]]",
                                "{\"a\":1,\"a\":2}",
                                "[1,\"a\",null]",
                                "{\"\":{}}",
                                "65536",
                                "1000001",
                                "\"../../etc/passwd\"",
                                "[0,0]",
                                "[-1]",
                                "[9223372036854775807,9223372036854775807]"};
  switch (draw.below(12)) {
  case 0: return repeated("[", 1 + draw.below(20'000)); // never closed
  case 1: {
    const size_t depth = 1 + draw.below(2'000);
    return repeated("[", depth) + repeated("]", depth);
  }
  case 2: return repeated("{\"a\":", 200) + "1" + repeated("}", 200);
  case 3: return "\"" + repeated("\xcc\x81", 1 + draw.below(2'000)) + "\""; // combining marks
  case 4: return "1" + repeated("0", 1 + draw.below(5'000));
  default: return values[draw.below(std::size(values))];
  }
}

// The key in front of a value, with the value, once more.
std::string repeat_key(std::string text, Draw& draw) {
  const std::vector<size_t> places = value_places(text);
  if (places.empty()) return text;
  const size_t place = places[draw.below(places.size())];
  if (text[place - 1] != ':') return text.insert(place, "null,");
  const size_t open = text.rfind('"', text.rfind('"', place - 1) - 1);
  if (open == std::string::npos) return text;
  const std::string pair = text.substr(open, value_end(text, place) - open);
  return text.insert(open, pair + ",");
}

} // namespace

uint64_t Draw::next() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

std::string damaged_bytes(std::string bytes, Draw& draw) {
  if (bytes.empty()) return "\xff";
  switch (draw.below(6)) {
  case 0: return bytes.substr(0, draw.below(bytes.size()));
  case 1: return overwrite_length(std::move(bytes), draw);
  case 2: return overwrite_length(std::move(bytes), draw);
  case 3: return move_slice(std::move(bytes), draw);
  default: return flip_bits(std::move(bytes), draw);
  }
}

std::string damaged_json(const std::string& text, Draw& draw) {
  const std::vector<size_t> places = value_places(text);
  const size_t kind = draw.below(10);
  if (places.empty() || kind == 0) return damaged_bytes(text, draw);
  if (kind == 1) return repeat_key(text, draw);
  const size_t begin = places[draw.below(places.size())], end = value_end(text, begin);
  if (kind == 2) return text.substr(0, begin) + text.substr(end);
  return text.substr(0, begin) + odd_value(draw) + text.substr(end);
}

std::string mutant(const std::vector<std::string>& seeds, Form form, uint64_t number) {
  Draw draw(number);
  std::string made = seeds[draw.below(seeds.size())];
  for (size_t damages = 1 + draw.below(2); damages > 0; --damages) {
    if (form == Form::binary) {
      made = draw.below(8) == 0 ? made.substr(0, made.size() / 2) + seeds[draw.below(seeds.size())]
                                : damaged_bytes(std::move(made), draw);
    } else if (form == Form::json) {
      made = damaged_json(made, draw);
    } else {
      const size_t begin = made.empty() ? 0 : made.rfind('\n', draw.below(made.size()));
      const size_t from = begin == std::string::npos ? 0 : begin + 1;
      const size_t end = std::min(made.find('\n', from), made.size());
      made = made.substr(0, from) + damaged_json(made.substr(from, end - from), draw) +
             made.substr(end);
    }
  }
  return made;
}

std::string header_mutant(const std::string& seed, uint64_t number) {
  Draw draw(number);
  uint64_t length = 0;
  std::memcpy(&length, seed.data(), sizeof length);
  const std::string header = damaged_json(seed.substr(8, length), draw);
  const uint64_t now = header.size();
  std::string made(reinterpret_cast<const char*>(&now), sizeof now);
  return made + header + seed.substr(8 + length);
}

} // namespace dllm::hostile
