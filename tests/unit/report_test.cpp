// The report pages and their charts, and the model kept for its validation loss.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "tests/unit/observed.h"
#include "weft/train/best.h"
#include "weft/train/chart.h"
#include "weft/train/compare.h"
#include "weft/train/report.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class Runs : public testing::Test {
 protected:
  Runs() { fs::create_directories(folder); }
  ~Runs() override { fs::remove_all(folder); }
  const fs::path folder = fs::temp_directory_path() / ("weft_report_" + std::to_string(::getpid()));
};

TEST(chart, ticks_are_round) {
  EXPECT_EQ(ticks(0, 100, 5), (std::vector<double>{0, 20, 40, 60, 80, 100}));
  EXPECT_EQ(ticks(-3.5, 3, 4), (std::vector<double>{-2, 0, 2}));
  EXPECT_EQ(ticks(0, 0.5, 2), (std::vector<double>{0, 0.5}));
}

TEST(chart, thinning_keeps_means_and_smoothing_starts_at_the_first) {
  Series s{"a", {}, {}};
  for (int i = 0; i < 1000; ++i) s.x.push_back(i), s.y.push_back(i % 2);
  for (size_t i : {0, 1, 500, 501}) s.y[i] = NAN;  // not part of the mean
  const Series thin = thinned(s, 100);
  ASSERT_EQ(thin.x.size(), 100u);
  for (double y : thin.y) EXPECT_DOUBLE_EQ(y, 0.5);
  EXPECT_EQ(smoothed({4, 4, 4}, 10), (std::vector<double>{4, 4, 4}));
  EXPECT_EQ(smoothed_both_ways({4, 4, 4}, 10), (std::vector<double>{4, 4, 4}));
  const std::vector<double> line = smoothed_both_ways({0, 1, 2, 3, 4}, 3);
  EXPECT_DOUBLE_EQ(line[2], 2);  // no lag: the middle of a straight line is unchanged
  EXPECT_DOUBLE_EQ(line[1] + line[3], 4);
}

TEST(chart, omits_values_that_are_not_finite) {
  const std::string drawing = svg({.title = "t", .y_label = "", .series = {{"a", {1, 2, 3}, {1, NAN, 2}}}});
  EXPECT_EQ(drawing.find("nan"), std::string::npos);
  EXPECT_NO_THROW(svg({.title = "t", .y_label = "", .series = {{"a", {}, {}}}}));
  EXPECT_EQ(svg({.title = "t", .y_label = "", .series = {{"a", {1}, {5}}}}).find("nan"), std::string::npos);
}

TEST(chart, logarithmic_axis) {
  EXPECT_EQ(log_ticks(0.5, 20000, 6), (std::vector<double>{1, 10, 100, 1000, 10000}));
  EXPECT_EQ(log_ticks(0.9, 21, 6), (std::vector<double>{1, 2, 5, 10, 20}));
  EXPECT_EQ(log_ticks(2, 4, 2), (std::vector<double>{2, 3, 4}));
  EXPECT_LE(log_ticks(1e-300, 1e300, 6).size(), 8u);
  const std::string drawing =
      svg({.title = "t", .y_label = "", .series = {{.name = "a", .x = {1, 2, 3, 4}, .y = {100, 0, 10, 1}}}, .logarithmic = true});
  EXPECT_EQ(drawing.find("nan"), std::string::npos);
  EXPECT_EQ(drawing.find("inf"), std::string::npos);
  EXPECT_NE(drawing.find("M66.0 "), std::string::npos);   // the first point
  EXPECT_NE(drawing.find("M291.3 "), std::string::npos);  // 0 is not on the axis: the line restarts after it
}

TEST(chart, escapes_marks_and_names) {
  const std::string drawing =
      svg({.title = "a\"b", .y_label = "<y>", .series = {{.name = "a", .x = {1, 2}, .y = {1, 2}}}, .mark = Mark{2, 2, "best <2>", 1}});
  for (const char* part : {"a&quot;b", "&lt;y&gt;", "best &lt;2&gt;", "ring s1"}) EXPECT_NE(drawing.find(part), std::string::npos) << part;
}

TEST(report, is_self_contained) {
  History history;
  for (int i = 1; i <= 50; ++i) history.add(StepRecord{i, 3.0 / i, 1e-3, 1, 1000, 0, double(i)});
  history.add(EvaluationRecord{50, 0.5, 0.97});
  history.add(SampleRecord{50, "<b>", "1 & 2"});
  const std::string page = report_page({.title = "llama-tiny",
                                        .subtitle = "sums",
                                        .state = "finished",
                                        .steps = 50,
                                        .facts = {{"device", "cpu"}},
                                        .config = "steps = 50\n",
                                        .written = "today"},
                                       history);
  for (const char* part : {"<strong>Loss</strong>", ">validation</i>", "best 0.5000, step 50", "log scale", "perplexity", "1.649",
                           "nats per token", ">step</text>", "Exact match", "Learning rate", "Gradient norm", "Tokens a second", "97.0 %",
                           "&lt;b&gt;", "1 &amp; 2", "steps = 50"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  for (const char* part : {"https://", "src=", "@import", "url("}) EXPECT_EQ(page.find(part), std::string::npos) << part;
  // The only address is the SVG namespace.
  EXPECT_EQ(page.find("http://"), page.find("http://www.w3.org/2000/svg"));
  EXPECT_EQ(page.find("http://", page.find("http://") + 1), std::string::npos);
}

ReportFacts facts_of_nothing() {
  return {.title = "t<i>", .subtitle = "a & b", .state = "running", .steps = 3, .facts = {}, .config = "", .written = "today"};
}

TEST(report, reloads_while_the_run_is_in_progress) {
  const auto refreshes = [](const char* state) {
    ReportFacts facts = facts_of_nothing();
    facts.state = state;
    return report_page(facts, History()).find("http-equiv=refresh") != std::string::npos;
  };
  EXPECT_TRUE(refreshes("running"));
  EXPECT_FALSE(refreshes("finished"));
  EXPECT_FALSE(refreshes("stopped at step 7"));
}

TEST(report, run_with_few_metrics) {
  History history;
  EXPECT_NE(report_page(facts_of_nothing(), history).find("t&lt;i&gt;"), std::string::npos);
  history.add(StepRecord{1, 2.5, 1e-3, 1, 1000, 0, 1});
  std::string page = report_page(facts_of_nothing(), history);
  EXPECT_NE(page.find("<strong>Loss</strong>"), std::string::npos);
  for (const char* part : {"nan", "validation</i>", "perplexity", "class=mark"}) EXPECT_EQ(page.find(part), std::string::npos) << part;
  history.add(StepRecord{2, NAN, 1e-3, NAN, 1000, 0, 2});
  history.add(EvaluationRecord{2, NAN, std::nullopt});
  page = report_page(facts_of_nothing(), history);
  EXPECT_EQ(page.find("class=mark"), std::string::npos);  // NaN is not the best
  EXPECT_EQ(page.find("M66.0 nan"), std::string::npos);
}

TEST(report, page_of_a_long_run_is_small) {
  History history;
  for (int i = 1; i <= 100000; ++i) {
    history.add(StepRecord{i, 3 + 1.0 / i, 1e-3, i % 777 ? 1.0 : NAN, 1000, 0, double(i)});
    if (i % 100 == 0) history.add(EvaluationRecord{i, 3 + std::abs(i - 70000) * 1e-5, std::nullopt});
  }
  const std::string page = report_page(facts_of_nothing(), history);
  EXPECT_LT(page.size(), 250000u);
  EXPECT_NE(page.find("best 3.0000, step 70000"), std::string::npos);
}

TEST_F(Runs, comparison) {
  std::vector<ComparedRun> runs;
  for (const char* name : {"first <run>", "second: a|b"}) {
    const fs::path run = folder / name;
    fs::create_directories(run);
    TrainConfig config;
    config.steps = 20;
    config.out = run.string();
    config.learning_rate = runs.empty() ? 0.5 : 0.25;
    std::ofstream(run / "config.toml") << to_toml(config);
    History history((run / "metrics.jsonl").string());
    for (int i = 1; i <= 10; ++i) history.add(StepRecord{i, 3.0 / i, config.learning_rate, 1, 1000, 0, double(i)});
    if (runs.empty()) history.add(EvaluationRecord{10, 0.5, 0.97});
    std::ofstream(run / "metrics.jsonl", std::ios::app) << "{\"step\": 11, \"lo";  // like a run in progress
    const std::string before = contents(run / "metrics.jsonl");
    runs.push_back(read_run(run.string()));
    EXPECT_EQ(contents(run / "metrics.jsonl"), before);
  }
  const std::string page = comparison_page(runs, "today");
  for (const char* part :
       {"first &lt;run&gt;", "second: a|b", "10 of 20", "0.5000 at 10", "learning_rate", ">0.25<", "class=\"s1\"", "97.0 %", "log scale"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  for (const char* part : {"<run>", "https://", "src=", "http-equiv=refresh", "nan", ">batch<", ">out<"})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
}

TEST_F(Runs, error_names_a_folder_without_a_run) {
  const auto complaint = [](const fs::path& path) { return message_of([&] { read_run(path.string()); }); };
  EXPECT_EQ(complaint(folder / "none"), (folder / "none").string() + ": is not a folder, expected the folder of a run of weft train");
  EXPECT_EQ(complaint(folder), folder.string() + ": is not the folder of a run: it has no config.toml");
}

TEST_F(Runs, best_model_is_replaced_only_by_a_better_one) {
  const std::string run = folder.string();
  BestModel best(run, true);
  const auto write = [](const char* text) { return [=](const std::string& into) { std::ofstream(into + "/weights") << text; }; };
  EXPECT_THROW(best_source(run), Error);
  EXPECT_FALSE(best.improved_by({1, NAN, std::nullopt}));
  best.replace({1, 2.0, std::nullopt}, write("one"));
  EXPECT_FALSE(best.improved_by({2, 2.0, std::nullopt}));
  EXPECT_TRUE(best.improved_by({2, 1.5, std::nullopt}));
  EXPECT_THROW(best.replace({2, 1.5, std::nullopt}, [](const std::string&) { throw std::bad_alloc(); }), std::bad_alloc);
  EXPECT_EQ(best_source(run).record.step, 1);  // the existing model is unchanged
  best.replace({3, 1.25, std::nullopt}, write("three"));
  EXPECT_EQ(BestModel(run, false).record()->validation_loss, 1.25);
  EXPECT_EQ(best_source(run).model, (folder / "best").string());
  EXPECT_EQ(contents(folder / "best/weights"), "three");
  EXPECT_FALSE(BestModel(run, true).record().has_value());  // a new run in the folder
  EXPECT_THROW(best_source(run), Error);
}

}  // namespace
}  // namespace weft
