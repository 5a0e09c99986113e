#include "base/sha256.h"

#include <gtest/gtest.h>

namespace dllm {
namespace {

// The examples of FIPS 180-4 and the one of a million letters.
TEST(Sha256, GivesThePublishedNumbers) {
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(sha256(std::string(1000000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Wherever the input is cut, also around the edges of a block and of the padding.
TEST(Sha256, DoesNotDependOnThePieces) {
  for (size_t size : {1, 55, 56, 57, 63, 64, 65, 119, 120, 128, 200}) {
    std::string text;
    for (size_t i = 0; i < size; ++i) text += static_cast<char>(i * 7);
    for (size_t cut = 0; cut <= size; ++cut) {
      Sha256 hash;
      hash.add(text.substr(0, cut));
      hash.add(text.substr(cut));
      ASSERT_EQ(hash.finish(), sha256(text)) << size << " cut at " << cut;
    }
  }
}

} // namespace
} // namespace dllm
