#include "weft/train/report.h"

#include <algorithm>
#include <cmath>

#include "weft/base/check.h"
#include "weft/io/atomic_file.h"
#include "weft/train/progress.h"
#include "weft/train/report_parts.h"

namespace weft {
namespace {

struct Tile {
  std::string value, name;  // value: HTML
};

void add_steps(std::vector<Tile>& tiles, const ReportFacts& facts, const History& history) {
  tiles.push_back({join(history.steps().back().step, "<small>/", facts.steps, "</small>"), "steps"});
  tiles.push_back({decimals("%.4f", smoothed_loss(history)), "training loss"});
  if (const int64_t skipped = history.skipped()) tiles.push_back({std::to_string(skipped), "steps skipped"});
}

void add_evaluations(std::vector<Tile>& tiles, const History& history) {
  const EvaluationRecord& last = history.evaluations().back();
  tiles.push_back({decimals("%.4f", last.validation_loss), "validation loss"});
  if (const EvaluationRecord* best = history.best())
    tiles.push_back({decimals("%.4f", best->validation_loss), join("best, at step ", best->step)});
  tiles.push_back({decimals("%.4g", std::exp(last.validation_loss)), "perplexity"});
  if (last.accuracy) tiles.push_back({decimals("%.1f %%", 100 * *last.accuracy), "of unseen right"});
}

void add_speed(std::vector<Tile>& tiles, const History& history) {
  tiles.push_back({count_text(median(step_series(history, &StepRecord::tokens_per_second).y)), "tokens a second"});
  if (const double share = median(step_series(history, &StepRecord::utilisation).y); share > 0)
    tiles.push_back({decimals("%.0f %%", 100 * share), "of the peak"});
  tiles.push_back({duration_text(history.steps().back().seconds), "training time"});
}

// One row of them, or two of about the same length.
std::string tiles(const ReportFacts& facts, const History& history) {
  std::vector<Tile> all;
  if (!history.steps().empty()) add_steps(all, facts, history);
  if (!history.evaluations().empty()) add_evaluations(all, history);
  if (!history.steps().empty()) add_speed(all, history);
  constexpr size_t kRow = 7;
  std::string out =
      join("<div class=tiles style=\"--columns:", all.size() <= kRow ? std::max<size_t>(1, all.size()) : (all.size() + 1) / 2, "\">");
  for (const Tile& t : all) out += join("<div class=tile><b>", t.value, "</b><span>", escape_html(t.name), "</span></div>");
  return out + "</div>";
}

Chart loss_chart(const History& history) {
  constexpr int kValidation = 1;
  const Series each = step_series(history, &StepRecord::loss);
  Series training = smooth(each), validation = validation_series(history);
  training.name = "training";
  validation.colour = kValidation;
  Chart chart{.title = "Loss", .y_label = "nats per token", .series = {each, training}};
  if (!validation.x.empty()) chart.series.push_back(validation);
  if (const EvaluationRecord* best = history.best())
    chart.mark = Mark{double(best->step), best->validation_loss,
                      join("best ", decimals("%.4f", best->validation_loss), ", step ", best->step), kValidation};
  return chart;
}

// One line for each task: shares in one chart, bits per byte in another.
std::string task_charts(const History& history, double from, double to) {
  Chart shares{.title = "Tasks", .y_label = "share right", .series = {}, .from_zero = true, .percent = true, .whole = true};
  Chart bits{.title = "Bits per byte of task texts", .y_label = "bits per byte", .series = {}};
  for (const Series& series : task_series(history)) {
    Chart& chart = is_bits_per_byte(series.name) ? bits : shares;
    chart.series.push_back(series);
    chart.series.back().colour = int(chart.series.size()) - 1;
  }
  std::string out;
  for (Chart* chart : {&shares, &bits}) {
    if (from < to) chart->x_from = from, chart->x_to = to;
    out += figure(*chart);
  }
  return out;
}

std::string charts(const History& history) {
  const Series norm = step_series(history, &StepRecord::gradient_norm), speed = step_series(history, &StepRecord::tokens_per_second);
  Series rate = step_series(history, &StepRecord::learning_rate);
  rate.faint = false;
  std::string out = "<div class=charts>";
  const auto add = [&](Chart chart, bool log_scale = false) {
    if (!rate.x.empty()) chart.x_from = rate.x.front(), chart.x_to = rate.x.back();
    out += figure(chart, log_scale);
  };
  add(loss_chart(history), true);
  add({.title = "Exact match on unseen examples",
       .y_label = "share right",
       .series = {accuracy_series(history)},
       .from_zero = true,
       .percent = true,
       .whole = true});
  add({.title = "Learning rate", .y_label = "learning rate", .series = {rate}, .from_zero = true});
  add({.title = "Gradient norm", .y_label = "L2 norm, before clipping", .series = {norm, smooth(norm)}, .from_zero = true}, true);
  add({.title = "Tokens a second", .y_label = "tokens a second", .series = {speed, smooth(speed)}, .from_zero = true});
  if (!rate.x.empty()) out += task_charts(history, rate.x.front(), rate.x.back());
  return out + "</div>";
}

// The scores of the last evaluation.
std::string task_table(const History& history) {
  if (history.tasks().empty()) return "";
  const TasksRecord& last = history.tasks().back();
  std::string out =
      join("<h2>Tasks, step ", last.step,
           "</h2><div class=\"card scroll\"><table class=results><tr><th>task<th>items<th>few-shot examples<th>score<th>value<th>standard "
           "error<th>95 % interval</tr>");
  for (const TaskScores& each : last.tasks)
    for (const Score& score : each.scores)
      out += join("<tr><td>", escape_html(each.task), "<td>", each.items, "<td>", each.shots, "<td>", escape_html(score.metric), "<td>",
                  decimals("%.4f", score.value), "<td>", decimals("%.4f", score.standard_error), "<td>", decimals("%.4f", score.low),
                  " to ", decimals("%.4f", score.high), "</tr>");
  return out + "</table></div>";
}

// The newest first; of many, the newest and a few spread over the run.
std::string samples(const History& history) {
  const std::vector<SampleRecord>& all = history.samples();
  if (all.empty()) return "";
  std::vector<int64_t> steps;
  for (const SampleRecord& s : all)
    if (steps.empty() || steps.back() != s.step) steps.push_back(s.step);
  constexpr size_t kMost = 8;
  std::vector<int64_t> shown;
  for (size_t k = 0; k < std::min(kMost, steps.size()); ++k)
    shown.push_back(steps.size() <= kMost ? steps[k] : steps[k * (steps.size() - 1) / (kMost - 1)]);
  const bool brief = std::all_of(all.begin(), all.end(), [](const SampleRecord& s) { return s.prompt.size() + s.text.size() < 32; });
  std::string out = join("<h2>What it writes</h2><div class=\"samples", brief ? " brief" : "", "\">");
  for (auto step = shown.rbegin(); step != shown.rend(); ++step) {
    out += join("<div class=\"card sample\"><small>step ", *step, "</small>");
    for (const SampleRecord& s : all)
      if (s.step == *step) out += join("<pre><span class=prompt>", escape_html(s.prompt), "</span>", escape_html(s.text), "</pre>");
    out += "</div>";
  }
  return out + "</div>";
}

std::string facts_list(const ReportFacts& facts) {
  std::string out = "<h2>The run</h2><div class=card><dl>";
  for (const auto& [name, value] : facts.facts) out += join("<dt>", escape_html(name), "</dt><dd>", escape_html(value), "</dd>");
  return out + "</dl></div><h2>Configuration</h2><div class=card><details id=config><summary>config.toml</summary><pre>" +
         escape_html(facts.config) + "</pre></details></div>";
}

}  // namespace

std::string report_page(const ReportFacts& facts, const History& history) {
  const bool running = facts.state == "running", finished = facts.state.starts_with("finished");
  std::string body = join("<h1>", escape_html(facts.title), "<span class=\"state",
                          finished  ? " done"
                          : running ? " live"
                                    : "",
                          "\">", escape_html(facts.state), "</span></h1>");
  body += join("<p class=sub>", escape_html(facts.subtitle), "</p>");
  body += tiles(facts, history) + charts(history) + task_table(history) + samples(history) + facts_list(facts);
  body += join("<footer>Written by weft train, ", escape_html(facts.written), ".",
               running ? join(" Loaded again every ", kReportSeconds, " seconds while the run continues.") : "", "</footer>");
  return html_page(facts.title + ": training report", body, running ? kReportSeconds : 0);
}

void write_report(const std::string& path, const ReportFacts& facts, const History& history) {
  AtomicFile file(path);
  file.write(report_page(facts, history));
  file.commit();
}

}  // namespace weft
