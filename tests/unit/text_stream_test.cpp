// Streaming of text: what is held back, where it stops, and that the split of bytes into tokens does not matter.
#include "weft/generate/text_stream.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/philox.h"
#include "weft/io/tokenizer/utf8.h"

namespace weft {
namespace {

using Strings = std::vector<std::string>;

struct Streamed {
  Strings parts;  // results of each push, then of finish
  bool stopped;

  std::string text() const {
    std::string all;
    for (const std::string& part : parts) all += part;
    return all;
  }
};

Streamed stream(const Strings& tokens, const Strings& stops = {}) {
  TextStream text(stops);
  Strings parts;
  for (const std::string& token : tokens) {
    parts.push_back(text.push(token));
    if (text.stopped()) break;
  }
  parts.push_back(text.finish());
  return {parts, text.stopped()};
}

TEST(TextStream, WholeCharactersAreStreamedAtOnce) {
  EXPECT_EQ(stream({"Hel", "lo ", "caf\xc3\xa9"}).parts, (Strings{"Hel", "lo ", "caf\xc3\xa9", ""}));
}

TEST(TextStream, CharactersAreNeverSplit) {
  EXPECT_EQ(stream({"a\xf0", "\x9f", "\x98", "\x80!"}).parts, (Strings{"a", "", "", "\xf0\x9f\x98\x80!", ""}));
}

TEST(TextStream, InvalidUtf8IsReplacedAsInPython) {
  const std::string fffd = "\xef\xbf\xbd";
  EXPECT_EQ(stream({"a\xff"
                    "b"})
                .text(),
            "a" + fffd + "b");
  EXPECT_EQ(stream({"a\xe4\xbd"}).parts, (Strings{"a", fffd}));  // a truncated character at the end: one U+FFFD
  EXPECT_EQ(stream({"\xe4\xbd"
                    "b"})
                .text(),
            fffd + "b");                                                      // interrupted
  EXPECT_EQ(stream({"\xc0\xaf"}).text(), fffd + fffd);                        // an overlong '/'
  EXPECT_EQ(stream({"\xed\xa0\x80"}).text(), fffd + fffd + fffd);             // a surrogate
  EXPECT_EQ(stream({"\xf4\x90\x80\x80"}).text(), fffd + fffd + fffd + fffd);  // past U+10FFFF
  EXPECT_EQ(stream({"\xf0\x9f\x98", "\xf0\x9f\x98\x80"}).text(), fffd + "\xf0\x9f\x98\x80");
  EXPECT_EQ(stream({"\x80"}).text(), fffd);
}

TEST(TextStream, StopStringAcrossTokensIsNotShown) {
  EXPECT_EQ(stream({"one", " EN", "D two"}, {"END"}).parts, (Strings{"one", " ", "", ""}));
  EXPECT_TRUE(stream({"one", " EN", "D two"}, {"END"}).stopped);
  EXPECT_EQ(stream({"END"}, {"END"}).text(), "");
  EXPECT_EQ(stream({"a\n", "\nb"}, {"\n\n"}).text(), "a");
}

TEST(TextStream, HeldBackTextIsReleased) {
  EXPECT_EQ(stream({"one EN", "TER"}, {"END"}).parts, (Strings{"one ", "ENTER", ""}));
  EXPECT_EQ(stream({"one EN"}, {"END"}).parts, (Strings{"one ", "EN"}));
  EXPECT_EQ(stream({"aaa", "ab"}, {"aab"}).text(), "aa");  // a false start overlaps the true one
}

TEST(TextStream, FirstCompleteStopWinsThenTheLongest) {
  EXPECT_EQ(stream({"xabcdx"}, {"abcd", "bc"}).text(), "xa");
  EXPECT_EQ(stream({"xabcx"}, {"bc", "abc"}).text(), "x");
}

TEST(TextStream, StopMayStartInsideAMultibyteCharacter) {
  EXPECT_EQ(stream({"\xe4\xbd\xa0", "\xe5\xa5", "\xbd"}, {"\xe5\xa5\xbd"}).text(), "\xe4\xbd\xa0");
}

TEST(TextStream, EmptyStopIsAnError) { EXPECT_THROW(TextStream({""}), Error); }

// Every random split of a text gives the same result, and every piece has whole characters.
TEST(TextStream, ResultDoesNotDependOnTokenBoundaries) {
  const std::string bytes = "a\xc3\xa9 b\xff\xe4\xbd\xa0\xe5\xa5 ab\xf0\x9f\x98\x80\xf0\x9f\x98 abab\xe2\x80\x94 aba!abc\xc3";
  for (const Strings& stops : {Strings{}, {"abac"}, {"aba!"}, {"\xbd\xa0"}, {"c", "bc", "\x80\x94"}, {"abab"}}) {
    const std::string whole = stream({bytes}, stops).text();
    PhiloxStream random(5);
    for (int round = 0; round < 300; ++round) {
      Strings tokens;
      for (size_t at = 0; at < bytes.size();) {
        const size_t n = std::min<size_t>(size_t(random.below(5)), bytes.size() - at);  // empty tokens too
        tokens.push_back(bytes.substr(at, n));
        at += n;
      }
      const Streamed cut = stream(tokens, stops);
      ASSERT_EQ(cut.text(), whole);
      for (const std::string& part : cut.parts) ASSERT_EQ(first_invalid_utf8(part), part.size());
    }
  }
}

}  // namespace
}  // namespace weft
