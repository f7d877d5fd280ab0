#include "weft/data/documents.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/unit/observed.h"
#include "weft/data/prepared.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

class DocumentsTest : public testing::Test {
 protected:
  DocumentsTest() { fs::create_directories(folder); }
  ~DocumentsTest() override { fs::remove_all(folder); }
  std::string write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name, std::ios::binary) << text;
    return (folder / name).string();
  }
  // The texts of a file with this name and content, and their names.
  Texts texts(const std::string& name, const std::string& content) {
    Texts found;
    places.clear();
    Documents(write(name, content)).visit([&](std::string_view text, const std::string& where) {
      found.emplace_back(text);
      places.push_back(fs::path(where).filename().string());
    });
    return found;
  }
  std::string error(const std::string& name, const std::string& content) {
    return message_of([&] { texts(name, content); });
  }
  const fs::path folder = fs::temp_directory_path() / ("weft_documents_" + std::to_string(::getpid()));
  Texts places;
};

#define EXPECT_HAS(message, part) EXPECT_NE((message).find(part), std::string::npos) << (message) << "\nlacks " << (part)

TEST_F(DocumentsTest, json_is_a_list_or_objects_or_one) {
  const Texts both = {"one", "t\nw[o\""};
  EXPECT_EQ(texts("a.json", R"([{"text": "one", "id": [1, {"x": "]}"}]}, {"text": "t\nw[o\""}])"), both);
  EXPECT_EQ(places, (Texts{"a.json[0]", "a.json[1]"}));
  EXPECT_EQ(texts("b.json", R"( [ "one" , "t\nw[o\"" ] )"), both);
  EXPECT_EQ(texts("c.json", R"(["one", {"text": "t\nw[o\""}])"), both);
  EXPECT_EQ(texts("d.json", "{\"text\": \"one\"}\n\n{\"text\": \"t\\nw[o\\\"\"}\n"), both);
  EXPECT_EQ(places, (Texts{"d.json:1", "d.json:3"}));
  EXPECT_EQ(texts("e.json", "{\n  \"text\": \"one\"\n}\n"), (Texts{"one"}));
  EXPECT_EQ(texts("f.JSON", "[]"), Texts());
  EXPECT_EQ(texts("g.jsonl", "[\n{\"text\": \"one\"},\n\"t\\nw[o\\\"\"]"), both);
  EXPECT_EQ(texts("h.ndjson", "{\"text\": \"one\"}\r\n{\"text\": \"t\\nw[o\\\"\"}"), both);
  EXPECT_EQ(places, (Texts{"h.ndjson:1", "h.ndjson:2"}));
}

TEST_F(DocumentsTest, json_without_texts_is_an_error) {
  EXPECT_HAS(error("a.json", R"({"data": [{"text": "x"}]})"), "a.json:1: has no field \"text\"");
  EXPECT_HAS(error("b.json", R"(["x", 5])"),
             "b.json[1]: is not a JSON object but number, expected an object with a field \"text\" or a string");
  EXPECT_HAS(error("c.json", R"([{"text": ["x"]}])"), "c.json[0]: its field \"text\" is not a string but array");
  EXPECT_HAS(error("d.json", "plain words"), "d.json:1: has 'p', expected a list of texts, or objects");
  EXPECT_HAS(error("e.json", "{\"text\": \"x\"}\n{\"text\": oops}\n"), "e.json:2: is not valid JSON, at byte 10: invalid literal");
  EXPECT_HAS(error("f.json", "{\"text\": \"x\"}\n5\n"), "f.json:2: has '5'");
  EXPECT_HAS(error("g.json", "[\"x\""), "its list is not closed");
  EXPECT_HAS(error("h.json", "["), "its list is not closed");
  EXPECT_HAS(error("i.json", "[\"x\" \"y\"]"), "element 0 of its list is followed by '\"'");
  EXPECT_HAS(error("j.json", "[\"x\"] [\"y\"]"), "its list is followed by '['");
  EXPECT_HAS(error("k.json", "[\"x\",]"), "k.json[1]: is not valid JSON");
  EXPECT_HAS(error("l.json", "[\"x"), "l.json[0]: is not valid JSON, at byte 3: invalid string: missing closing quote");
  EXPECT_HAS(error("m.json", "{\"text\": \"x\""), "m.json:1: is not valid JSON, at byte 13: unexpected end of input; expected '}'");
  EXPECT_HAS(error("n.json", "\xff\xfe{"), "n.json:1: has byte 255");
  EXPECT_HAS(error("o.ndjson", "plain words"), "o.ndjson:1: is not valid JSON");
}

TEST_F(DocumentsTest, file_with_unknown_extension_is_text_if_named) {
  EXPECT_EQ(texts("words.log", "some words"), (Texts{"some words"}));
  EXPECT_EQ(texts("words", "{\"text\": \"as it is\"}"), (Texts{"{\"text\": \"as it is\"}"}));
  const std::string message = error("image.png", "\x89PNG\r\n");
  EXPECT_HAS(message, "image.png: is not UTF-8 at byte 0; expected text (.txt");
}

TEST_F(DocumentsTest, byte_order_mark_is_skipped) {
  const std::string mark = "\xef\xbb\xbf";
  EXPECT_EQ(texts("a.txt", mark + "words"), (Texts{"words"}));
  EXPECT_EQ(texts("a.jsonl", mark + "{\"text\": \"words\"}"), (Texts{"words"}));
  EXPECT_EQ(texts("a.json", mark + "[\"words\"]"), (Texts{"words"}));
}

TEST_F(DocumentsTest, other_files_in_a_folder_are_listed_once) {
  write("in/a.txt", "a");
  write("in/b.png", "\x89PNG");
  write("in/sub/c.MD", "c");
  write("in/sub/d.bin", "\xff");
  write("in/sub/words", "no kind");
  write("in/.hidden.bin", "\xff");
  Texts notices, found;
  const Documents documents((folder / "in").string(), [&](const std::string& text) { notices.push_back(text); });
  documents.visit([&](std::string_view text, const std::string&) { found.emplace_back(text); });
  EXPECT_EQ(found, (Texts{"a", "c"}));
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_HAS(notices[0], "in: left out 3 files (.bin, .png, no extension): b.png, sub/d.bin, sub/words; only text (.txt");
  for (int i = 0; i < 9; ++i) write("in/e" + std::to_string(i) + ".png", "x");
  Documents((folder / "in").string(), [&](const std::string& text) { notices.push_back(text); });
  EXPECT_HAS(notices.back(), "left out 12 files (.bin, .png, no extension): b.png, e0.png, e1.png, e2.png, e3.png and 7 more");
  write("pictures/a.png", "x");
  EXPECT_HAS(message_of([&] { Documents((folder / "pictures").string()); }), "pictures: the folder has no text (.txt");
}

// The name of the cache's folder depends on how a file is read, not on what it is called.
TEST_F(DocumentsTest, cache_name_depends_on_the_format) {
  const std::string content = "{\"text\": \"one\"}\n";
  const auto name = [&](const std::string& file) { return cache_name(inputs_of(Documents(write(file, content)), *byte_vocabulary())); };
  EXPECT_NE(name("a.txt"), name("a.jsonl"));
  EXPECT_NE(name("a.txt"), name("a.json"));
  EXPECT_NE(name("a.jsonl"), name("a.json"));
  EXPECT_EQ(name("a.jsonl"), name("b.ndjson"));
  EXPECT_EQ(name("a.txt"), name("b.log"));
}

}  // namespace
}  // namespace weft
