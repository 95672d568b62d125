#include "divisi/file_kind.h"
#include "divisi/suggest.h"

#include <gtest/gtest.h>
#include <random>

using namespace divisi;
using Names = std::vector<std::string>;

namespace {

/// The definition, as a recursion: the distance of two prefixes.
size_t bruteForce(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty())
    return a.size() + b.size();
  std::string_view shortA = a.substr(0, a.size() - 1), shortB = b.substr(0, b.size() - 1);
  size_t best = std::min({bruteForce(shortA, b) + 1, bruteForce(a, shortB) + 1, bruteForce(shortA, shortB) + (a.back() != b.back())});
  if (a.size() > 1 && b.size() > 1 && a.back() == b[b.size() - 2] && a[a.size() - 2] == b.back())
    best = std::min(best, bruteForce(a.substr(0, a.size() - 2), b.substr(0, b.size() - 2)) + 1);
  return best;
}

TEST(Suggest, ListsInWords) {
  using Numbers = std::vector<int64_t>;
  EXPECT_EQ(listed(Numbers{4}), "4");
  EXPECT_EQ(listed(Numbers{2, 3}), "2 or 3");
  EXPECT_EQ(listed(Numbers{2, 3, 4}), "2, 3 or 4");
  EXPECT_EQ(listed(Names{"rank 1", "rank 3"}, "and"), "rank 1 and rank 3");
}

TEST(EditDistance, KnownPairs) {
  EXPECT_EQ(editDistance("kitten", "sitting"), 3u); // the textbooks' examples
  EXPECT_EQ(editDistance("saturday", "sunday"), 3u);
  EXPECT_EQ(editDistance("ca", "abc"), 3u); // no text is edited twice: optimal string alignment
  EXPECT_EQ(editDistance("", "abc"), 3u);
  EXPECT_EQ(editDistance("wieght", "weight"), 1u);
}

TEST(EditDistance, RandomTexts) {
  std::mt19937 random(1);
  auto draw = [&] {
    std::string text(random() % 6, ' ');
    for (char &c : text)
      c = static_cast<char>('a' + random() % 3);
    return text;
  };
  for (int i = 0; i < 300; ++i) {
    std::string a = draw(), b = draw();
    EXPECT_EQ(editDistance(a, b), bruteForce(a, b)) << a << " " << b;
  }
}

TEST(Suggest, NearestNames) {
  Names names = {"fc1.weight", "fc1.bias", "fc2.weight"};
  EXPECT_EQ(didYouMean("fc1.wieght", names), "; did you mean 'fc1.weight'?");
  EXPECT_EQ(didYouMean("FC2.WEIGHT", names), "; did you mean 'fc2.weight'?");
  EXPECT_EQ(didYouMean("fc3.weight", names), "; did you mean 'fc1.weight' or 'fc2.weight'?");
  EXPECT_EQ(didYouMean("bias", names), "; did you mean 'fc1.bias'?");
  EXPECT_EQ(didYouMean("embedding", names), "");
  EXPECT_EQ(didYouMean("", names), "");
  EXPECT_EQ(suggestion("embedding", names), "; there are: fc1.weight, fc1.bias, fc2.weight");
  EXPECT_EQ(suggestion("embedding", Names{}), "");
}

TEST(Suggest, ManyAndHostileNames) {
  Names many;
  for (int i = 0; i < 20; ++i)
    many.push_back("layer" + std::to_string(i));
  EXPECT_EQ(suggestion("norm", many), "; there are: layer0, layer1, layer2, layer3, layer4, layer5, layer6, layer7 and 12 more");
  EXPECT_EQ(didYouMean("ab\nd", Names{"ab\nc"}), "; did you mean 'ab c'?");
  EXPECT_EQ(didYouMean(std::string(100000, 'x'), Names{std::string(100000, 'x')}), "");
}

TEST(FileKind, FirstBytes) {
  using namespace std::string_view_literals;
  EXPECT_EQ(kindOfFile(""), FileKind::empty);
  EXPECT_EQ(kindOfFile("\x93NUMPY\x01\x00"sv), FileKind::npy);
  EXPECT_EQ(kindOfFile("PK\x03\x04....x.npy"sv), FileKind::npz);
  EXPECT_EQ(kindOfFile("PK\x03\x04....archive/data.pkl"sv), FileKind::torch);
  EXPECT_EQ(kindOfFile("\x80\x04\x95...."sv), FileKind::pickle);
  EXPECT_EQ(kindOfFile("\x40\0\0\0\0\0\0\0{\"w\":"sv), FileKind::safetensors);
  EXPECT_EQ(kindOfFile("\x89PNG\r\n\x1a\n"sv), FileKind::image);
  EXPECT_EQ(kindOfFile("1,2,3\n4,5,6\n"), FileKind::csv);
  EXPECT_EQ(kindOfFile("{\"a\": 1}"), FileKind::json);
  EXPECT_EQ(kindOfFile("\x08\x08\x12\x07pytorch"sv), FileKind::onnx);
  EXPECT_EQ(kindOfFile("module {\n  func.func @f() { return }\n}\n"), FileKind::mlir);
  EXPECT_EQ(kindOfFile("hello world"), FileKind::unknown);
  EXPECT_EQ(kindOfFile("\0\0\0\0"sv), FileKind::unknown);
}

} // namespace
