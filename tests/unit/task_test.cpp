// Tasks: the forms of their lines, what is refused, few-shot examples, comparison of answers, and scores.
#include "weft/evaluate/task.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "weft/base/check.h"
#include "weft/evaluate/answers.h"
#include "weft/evaluate/forms.h"
#include "weft/evaluate/python_random.h"
#include "weft/evaluate/results.h"
#include "weft/evaluate/shots.h"
#include "weft/evaluate/statistics.h"

namespace weft {
namespace {

using Texts = std::vector<std::string>;

class TaskFiles : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  Task read(const std::string& text) { return read_task(file("task.jsonl", text)); }
  std::string error_of(const std::string& text) {
    try {
      read(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() /
      ("weft_task_test." + std::to_string(::getpid()) + "." + ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

#define EXPECT_ERROR(text, ...)                                                                     \
  do {                                                                                              \
    const std::string error = error_of(text);                                                       \
    for (const char* word : {__VA_ARGS__}) EXPECT_NE(error.find(word), std::string::npos) << error; \
  } while (false)

TEST_F(TaskFiles, HellaSwag) {
  const Task task = read(R"({"activity_label": "Tea", "ctx_a": "[header] A pot. [title] It boils.", "ctx_b": "the GIRL",)"
                         R"( "endings": [" pours  it. ", "sings [step] low."], "label": "1"})");
  EXPECT_EQ(task.form, "HellaSwag");
  EXPECT_EQ(task.kind, TaskKind::choices);
  EXPECT_EQ(task.items[0].prompt, "Tea: A pot.. It boils. The girl");
  EXPECT_EQ(task.items[0].choices, (Texts{"pours it.", "sings low."}));
  EXPECT_EQ(task.items[0].answer, 1);
}

TEST(WithoutMarkup, IsPythons) {
  EXPECT_EQ(without_markup("  a [b] c[d]e  "), "a ce");
  EXPECT_EQ(without_markup("a [b\nc] d"), "a [b\nc] d");  // a dot matches no line end
  EXPECT_EQ(without_markup("[ [x] y]"), " y]");           // the first bracket that closes
  EXPECT_EQ(without_markup("a    b   c"), "a  b  c");     // pairs of spaces, once
  EXPECT_EQ(without_markup("A [title]B"), "A. B");
}

TEST_F(TaskFiles, ArcInBothForms) {
  const Task hub = read(R"({"question": "Why?", "choices": {"text": ["x", "y"], "label": ["1", "2"]}, "answerKey": "2"})");
  const Task ai2 =
      read(R"({"question": {"stem": "Why?", "choices": [{"text": "x", "label": "A"}, {"text": "y", "label": "B"}]}, "answerKey": "B"})");
  for (const Task* task : {&hub, &ai2}) {
    EXPECT_EQ(task->form, "ARC");
    EXPECT_EQ(task->items[0].prompt, "Question: Why?\nAnswer:");
    EXPECT_EQ(task->items[0].choices, (Texts{"x", "y"}));
    EXPECT_EQ(task->items[0].answer, 1);
  }
}

TEST_F(TaskFiles, Mmlu) {
  const Task task = read(
      "{\"question\": \" Sum? \", \"subject\": \"small_sums\", \"choices\": [\"1\", \"2\", \"3\", \"4\"], \"answer\": 2}\n"
      "{\"question\": \"Sum?\", \"choices\": [\"1\", \"2\", \"3\"], \"answer\": \"B\"}\n");
  EXPECT_EQ(task.form, "MMLU");
  EXPECT_EQ(task.items[0].prompt, "Sum?\nA. 1\nB. 2\nC. 3\nD. 4\nAnswer:");
  EXPECT_EQ(task.items[0].description, "The following are multiple choice questions (with answers) about small sums.\n\n");
  EXPECT_EQ(task.items[0].choices, (Texts{"A", "B", "C", "D"}));
  EXPECT_EQ(task.items[0].answer, 2);
  EXPECT_EQ(task.items[1].answer, 1);
  EXPECT_EQ(task.items[1].description, "");
}

TEST_F(TaskFiles, PiqaWithLabelsInTheLineOrBesideTheFile) {
  const std::string lines = "{\"goal\": \"g\", \"sol1\": \"a\", \"sol2\": \"b\"}\n{\"goal\": \"h\", \"sol1\": \"c\", \"sol2\": \"d\"}\n";
  EXPECT_ERROR(lines, "task.jsonl:1", "task-labels.lst");
  file("task-labels.lst", "1\n0\n");
  const Task task = read(lines);
  EXPECT_EQ(task.items[0].prompt, "Question: g\nAnswer:");
  EXPECT_EQ(task.items[0].answer, 1);
  EXPECT_EQ(task.items[1].answer, 0);
  EXPECT_EQ(read(R"({"goal": "g", "sol1": "a", "sol2": "b", "label": 1})").items[0].answer, 1);
  file("task-labels.lst", "1\n");
  EXPECT_ERROR(lines, "has 1 labels", "2 lines");
  file("task-labels.lst", "1\n2\n");
  EXPECT_ERROR(lines, "task-labels.lst:2", "expected 0 or 1");
}

TEST_F(TaskFiles, PlainForms) {
  const Task choices = read("\xef\xbb\xbf{\"prompt\": \"p\", \"choices\": [\"x\", \"y\"], \"answer\": 1, \"id\": 7}\n\n");
  EXPECT_EQ(choices.form, "choices");
  EXPECT_EQ(choices.items[0].delimiter, " ");
  const Task target = read(R"({"prompt": "p", "target": ["x", "y"], "stop": ".", "max_tokens": 9, "delimiter": ""})");
  EXPECT_EQ(target.kind, TaskKind::target);
  EXPECT_EQ(target.items[0].targets, (Texts{"x", "y"}));
  EXPECT_EQ(target.items[0].stop, Texts{"."});
  EXPECT_EQ(target.items[0].max_tokens, 9);
  EXPECT_EQ(target.items[0].delimiter, "");
  EXPECT_EQ(read(R"({"text": "t"})").kind, TaskKind::text);
}

TEST_F(TaskFiles, WrongLinesAreNamed) {
  const std::string good = R"({"prompt": "p", "choices": ["x", "y"], "answer": 0})"
                           "\n";
  EXPECT_ERROR(good + "{", "task.jsonl:2");
  EXPECT_ERROR(good + R"({"prompt": "p", "choices": ["x", "y"], "answer": 2})", "task.jsonl:2", "answer", "is 2", "0 to 1");
  EXPECT_ERROR(good + R"({"prompt": "p", "choices": ["x", "y"], "answer": -1})", "is -1");
  EXPECT_ERROR(good + R"({"prompt": "p", "choices": ["x", "y"]})", "task.jsonl:2", "answer");
  EXPECT_ERROR(good + R"({"prompt": "p", "choices": [], "answer": 0})", "task.jsonl:2", "choices", "empty");
  EXPECT_ERROR(good + R"({"prompt": "p", "choices": ["x", ""], "answer": 0})", "empty text as choice 1");
  EXPECT_ERROR(good + R"({"text": "t"})", "task.jsonl:2", "form text", "have choices");
  EXPECT_ERROR(R"({"sentence": "t", "gold": 1})", "gold", "sentence", "HellaSwag {activity_label", "MMLU", "prompt, target");
  EXPECT_ERROR("[1]", "task.jsonl:1", "an object");
  EXPECT_ERROR("\n\n", "has no items");
  EXPECT_ERROR(R"({"text": ""})", "empty");
  EXPECT_ERROR(R"({"question": "q", "choices": {"text": ["x"], "label": ["A"]}, "answerKey": "C"})", "answerKey", "\"C\"");
  EXPECT_ERROR(R"({"question": "q", "choices": {"text": ["x"], "label": []}, "answerKey": "C"})", "1 texts and 0 labels");
  EXPECT_ERROR(R"({"activity_label": "l", "ctx_a": "a", "ctx_b": "", "endings": ["x", "y"], "label": ""})", "no answer");
  EXPECT_ERROR(R"({"question": "q", "choices": ["x", "y"], "answer": "C"})", "\"C\"", "2 choices");
}

// Numbers of CPython 3.11.
TEST(PythonRandom, DrawsAsPythonDoes) {
  using Draw = std::vector<int64_t>;
  PythonRandom random(1234);
  EXPECT_EQ(random.sample(10, 3), (Draw{7, 1, 0}));
  EXPECT_EQ(random.sample(10, 3), (Draw{1, 0, 9}));
  EXPECT_EQ(random.sample(10, 3), (Draw{1, 5, 3}));
  EXPECT_EQ(random.sample(1000, 6), (Draw{17, 31, 807, 16, 354, 663}));
  EXPECT_EQ(random.sample(40, 8), (Draw{39, 30, 29, 9, 5, 11, 7, 0}));
  EXPECT_EQ(random.sample(100, 2), (Draw{64, 62}));
  EXPECT_EQ(PythonRandom(0).sample(5, 5), (Draw{3, 4, 0, 1, 2}));
  EXPECT_EQ(PythonRandom((uint64_t(1) << 40) + 7).sample(1000000, 3), (Draw{643515, 783626, 854501}));
}

TEST_F(TaskFiles, ShotsAreOtherItemsAndTheSameForASeed) {
  std::string lines;
  for (int i = 0; i < 9; ++i) lines += join(R"({"prompt": "p)", i, R"(", "choices": ["x", "y"], "answer": 1})", "\n");
  const Task task = read(lines);
  const Texts prompts = with_shots(task, {.count = 2});
  EXPECT_EQ(prompts, with_shots(task, {.count = 2}));
  EXPECT_NE(prompts, with_shots(task, {.count = 2, .data = "", .seed = 5}));
  for (size_t i = 0; i < 9; ++i) {
    const std::string own = join("p", i);
    EXPECT_EQ(prompts[i].find(own), prompts[i].size() - own.size()) << prompts[i];  // as the question alone, at the end
    size_t answers = 0;
    for (size_t at = prompts[i].find(" y\n\n"); at != std::string::npos; at = prompts[i].find(" y\n\n", at + 1)) ++answers;
    EXPECT_EQ(answers, 2u);
  }
  EXPECT_NO_THROW(with_shots(task, {.count = 8}));
  EXPECT_THROW(with_shots(task, {.count = 9}), Error);
  const std::string other = file("other.jsonl", R"({"prompt": "other", "choices": ["z"], "answer": 0})");
  EXPECT_EQ(with_shots(task, {.count = 1, .data = other})[0], "other z\n\np0");
  EXPECT_THROW(with_shots(task, {.count = 1, .data = file("texts.jsonl", R"({"prompt": "t", "target": "u"})")}), Error);
  EXPECT_THROW(with_shots(task, {.count = 0, .data = other}), Error);
  EXPECT_THROW(with_shots(read(R"({"text": "t"})"), {.count = 1}), Error);
}

TEST_F(TaskFiles, ShotsOfMmluAreTheFirstOfTheSubject) {
  std::string lines;
  for (const char* subject : {"a", "b", "a", "b", "a"})
    lines += join(R"({"question": "q)", lines.size(), R"(", "subject": ")", subject, R"(", "choices": ["x", "y"], "answer": 1})", "\n");
  const Task task = read(lines);
  const Texts prompts = with_shots(task, {.count = 1});
  EXPECT_EQ(prompts[0], task.items[0].description + task.items[2].prompt + " B\n\n" + task.items[0].prompt);
  EXPECT_EQ(prompts[4], task.items[4].description + task.items[0].prompt + " B\n\n" + task.items[4].prompt);
  EXPECT_EQ(prompts[3], task.items[3].description + task.items[1].prompt + " B\n\n" + task.items[3].prompt);
  EXPECT_THROW(with_shots(task, {.count = 2}), Error);  // of b there is one other
}

TEST(Answers, AreNormalisedAsInSquad) {
  EXPECT_EQ(normalised_answer("  The  Cat, an\tApple & a-bee! "), "cat apple abee");
  EXPECT_EQ(normalised_answer("Another theory"), "another theory");
  EXPECT_EQ(normalised_answer("a \u00c9t\u00e9 \u2014 the"), "\u00e9t\u00e9 \u2014");
  EXPECT_EQ(exact_match("The answer.", {"no", "answer"}), 1);
  EXPECT_EQ(exact_match("answers", {"answer"}), 0);
  EXPECT_EQ(word_f1("a b c", {"b c d"}), 2 * 1.0 * (2.0 / 3) / (1 + 2.0 / 3));  // "a" is an article
  EXPECT_EQ(word_f1("x x", {"x"}), 2 * 0.5 * 1 / 1.5);
  EXPECT_EQ(word_f1("x", {"y", "x z"}), 2 * 1 * 0.5 / 1.5);
  EXPECT_EQ(word_f1("the", {"an"}), 1);
  EXPECT_EQ(word_f1("", {"x"}), 0);
}

TEST(Scores, HaveErrorsAndIntervals) {
  const std::vector<double> values = {1, 0, 1, 1};
  const Score share = share_score("acc", values);
  EXPECT_EQ(share.value, 0.75);
  EXPECT_NEAR(share.standard_error, 0.25, 1e-15);  // sqrt(0.25 / 4)
  EXPECT_NEAR(share.low, 0.3006418, 1e-6);         // Wilson's, by hand
  EXPECT_NEAR(share.high, 0.9544127, 1e-6);
  const Score all = share_score("acc", std::vector<double>(10, 1.0));
  EXPECT_EQ(all.standard_error, 0);
  EXPECT_NEAR(all.low, 0.7224672, 1e-6);
  EXPECT_NEAR(all.high, 1, 1e-12);
  EXPECT_TRUE(std::isnan(share_score("acc", std::vector<double>{1}).standard_error));
  const Score mean = mean_score("f1", std::vector<double>{0.5, 0.25});
  EXPECT_NEAR(mean.standard_error, 0.125, 1e-15);
  EXPECT_NEAR(mean.low, 0.375 - 1.959963984540054 * 0.125, 1e-12);
  const Score ratio = ratio_score("bits_per_byte", std::vector<double>{10, 30}, std::vector<double>{10, 10});
  EXPECT_EQ(ratio.value, 2);
  EXPECT_NEAR(ratio.standard_error, std::sqrt(2 * 200.0) / 20, 1e-12);  // residuals -10 and 10
  EXPECT_NEAR(power_score("byte_perplexity", 2, ratio).value, 4, 1e-12);
}

TEST(Picked, ByLength) {
  TaskItem item;
  item.choices = {"ab", "\u00e9\u00e9\u00e9", "abcdef"};
  const ItemResult result{.choices = {{-2, 1}, {-2.5, 5}, {-5.7, 2}}, .generated = ""};
  const Picked by = picked(item, result);
  EXPECT_EQ(by.plain, 0);
  EXPECT_EQ(by.by_characters, 1);  // -1, -0.83, -0.95
  EXPECT_EQ(by.by_bytes, 1);       // -1, -0.42, -0.95
  EXPECT_EQ(by.by_tokens, 1);      // -2, -0.5, -2.85
  EXPECT_EQ(picked(item, {.choices = {{-1, 1}, {-1, 1}, {-1, 1}}, .generated = ""}).plain, 0);
}

TEST(Results, TravelAsBytes) {
  const std::vector<ItemResult> results = {
      {.choices = {{-0.1234567890123456789, 3}, {-1e-300, 1}}, .generated = "a\n\u00e9", .truncated = true},
      {.choices = {}, .generated = "", .log_probability = -7.5, .tokens = 12}};
  const auto back = unpacked_results(packed_results(results));
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(back[0].choices[0].log_probability, results[0].choices[0].log_probability);
  EXPECT_EQ(back[0].choices[1].log_probability, results[0].choices[1].log_probability);
  EXPECT_EQ(back[0].generated, results[0].generated);
  EXPECT_TRUE(back[0].truncated);
  EXPECT_EQ(back[1].tokens, 12);
  EXPECT_THROW(unpacked_results("[[1]]"), Error);
}

}  // namespace
}  // namespace weft
