#include "comm/words.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace dllm::comm {

// Pads every string to the longest one, because all pieces of a gather have the same size.
std::vector<std::string> exchange_words(Communicator& communicator, const std::string& own,
                                        const Task* task) {
  std::vector<int64_t> all(static_cast<size_t>(communicator.size())), sizes(all.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  const int64_t size = std::ssize(own);
  communicator.all_gather(all, &size, sizes.data(), sizeof size, task);
  const auto most = static_cast<size_t>(*std::ranges::max_element(sizes));
  std::string padded = own, words(all.size() * most, '\0');
  padded.resize(most);
  communicator.all_gather(all, padded.data(), words.data(), static_cast<int64_t>(most), task);
  std::vector<std::string> made;
  for (size_t rank = 0; rank < all.size(); ++rank)
    made.push_back(words.substr(rank * most, static_cast<size_t>(sizes[rank])));
  return made;
}

} // namespace dllm::comm
