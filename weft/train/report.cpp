#include "weft/train/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "weft/base/check.h"
#include "weft/io/atomic_file.h"
#include "weft/train/chart.h"
#include "weft/train/progress.h"
#include "weft/train/report_style.h"

namespace weft {
namespace {

template <class... Args>
std::string format(const char* pattern, Args... args) {
  char text[96];
  std::snprintf(text, sizeof text, pattern, args...);
  return text;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string tile(const std::string& value, const std::string& name) { return join("<div class=tile><b>", value, "</b><span>", escape_html(name), "</span></div>"); }

std::string tiles(const ReportFacts& facts, const History& history) {
  std::string out = "<div class=tiles>";
  if (!history.steps().empty()) {
    const StepRecord& last = history.steps().back();
    std::vector<double> losses;
    for (const StepRecord& r : history.steps()) losses.push_back(r.loss);
    out += tile(join(last.step, "<small>/", facts.steps, "</small>"), "steps");
    out += tile(format("%.4f", smoothed(losses, 50).back()), "training loss");
  }
  if (!history.evaluations().empty()) {
    const EvaluationRecord& last = history.evaluations().back();
    out += tile(format("%.4f", last.validation_loss), "validation loss");
    if (last.accuracy) out += tile(format("%.1f %%", 100 * *last.accuracy), "of unseen right");
  }
  if (!history.steps().empty()) {
    std::vector<double> rates, shares;
    for (const StepRecord& r : history.steps()) rates.push_back(r.tokens_per_second), shares.push_back(r.utilisation);
    out += tile(count_text(median(rates)), "tokens a second");
    if (median(shares) > 0) out += tile(format("%.0f %%", 100 * median(shares)), "of the peak");
    out += tile(duration_text(history.steps().back().seconds), "training time");
  }
  return out + "</div>";
}

std::string figure(const Chart& chart) {
  bool any = false;
  for (const Series& s : chart.series) any |= std::any_of(s.y.begin(), s.y.end(), [](double y) { return std::isfinite(y); });
  if (!any) return "";
  std::string legend;
  for (size_t i = 0; chart.series.size() > 1 && i < chart.series.size(); ++i)
    legend += join("<i style=\"--c:var(--s", i, ")\">", escape_html(chart.series[i].name), "</i>");
  std::string drawing = svg(chart);
  if (chart.percent) drawing.insert(4, " data-percent");
  return join("<figure class=card><figcaption><strong>", escape_html(chart.title), "</strong>", legend, "<output></output></figcaption>", drawing, "</figure>");
}

Series smooth(const Series& each) { return {"smoothed", each.x, smoothed_both_ways(each.y, std::clamp(double(each.y.size()) / 50, 2.0, 100.0))}; }

std::string charts(const History& history) {
  Series loss{"each step", {}, {}, true}, norm = loss, speed = loss, rate{"learning rate", {}, {}}, validation{"validation", {}, {}, false, true},
      accuracy{"exact match", {}, {}, false, true};
  for (const StepRecord& r : history.steps()) {
    const auto point = [&](Series& s, double y) { s.x.push_back(double(r.step)), s.y.push_back(y); };
    point(loss, r.loss), point(rate, r.learning_rate), point(norm, r.gradient_norm), point(speed, r.tokens_per_second);
  }
  for (const EvaluationRecord& r : history.evaluations()) {
    validation.x.push_back(double(r.step)), validation.y.push_back(r.validation_loss);
    accuracy.x.push_back(double(r.step)), accuracy.y.push_back(r.accuracy.value_or(NAN));
  }
  std::string out = "<div class=charts>";
  const auto add = [&](Chart chart) {
    if (!loss.x.empty()) chart.x_from = loss.x.front(), chart.x_to = loss.x.back();
    out += figure(chart);
  };
  add({.title = "Training loss", .unit = "", .series = {loss, smooth(loss)}});
  add({.title = "Validation loss", .unit = "", .series = {validation}});
  add({.title = "Exact match on unseen examples", .unit = "", .series = {accuracy}, .from_zero = true, .percent = true, .whole = true});
  add({.title = "Learning rate", .unit = "", .series = {rate}, .from_zero = true});
  add({.title = "Gradient norm", .unit = "", .series = {norm, smooth(norm)}, .from_zero = true});
  add({.title = "Tokens a second", .unit = "", .series = {speed, smooth(speed)}, .from_zero = true});
  return out + "</div>";
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
  return out + "</dl></div><h2>Configuration</h2><div class=card><details><summary>config.toml</summary><pre>" + escape_html(facts.config) + "</pre></details></div>";
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (char c : text) switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  return out;
}

std::string report_page(const ReportFacts& facts, const History& history) {
  std::string page = "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width,initial-scale=1\">";
  page += join("<title>", escape_html(facts.title), ": training report</title><style>", kReportStyle, "</style><main>");
  page += join("<h1>", escape_html(facts.title), "<span class=\"state", facts.state == "finished" ? " done" : "", "\">", escape_html(facts.state), "</span></h1>");
  page += join("<p class=sub>", escape_html(facts.subtitle), "</p>");
  page += tiles(facts, history) + charts(history) + samples(history) + facts_list(facts);
  return page + join("<footer>Written by weft train.</footer></main><script>", kReportScript, "</script></html>\n");
}

void write_report(const std::string& path, const ReportFacts& facts, const History& history) {
  AtomicFile file(path);
  file.write(report_page(facts, history));
  file.commit();
}

}  // namespace weft
