#include "weft/train/report_parts.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "weft/base/check.h"
#include "weft/train/report_style.h"

namespace weft {
namespace {

std::string legend(const Chart& chart) {
  std::string out;
  if (chart.series.size() < 2) return out;
  for (const Series& s : chart.series)
    out += join("<i class=\"", colour_class(s.colour), s.faint ? " thin" : "", "\">", escape_html(s.name), "</i>");
  return out;
}

// An id of letters alone.
std::string id_of(const std::string& title) {
  std::string id = "log";
  for (char c : title)
    if (('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z')) id += c;
  return id;
}

bool has_points(const Chart& chart, bool positive) {
  const auto shown = [&](double y) { return std::isfinite(y) && (!positive || y > 0); };
  return std::any_of(chart.series.begin(), chart.series.end(), [&](const Series& s) { return std::any_of(s.y.begin(), s.y.end(), shown); });
}

}  // namespace

std::string decimals(const char* pattern, double value) {
  char text[96];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

double median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return NAN;
  const auto middle = values.begin() + ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string html_page(const std::string& title, const std::string& body, int refresh) {
  std::string page = "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width,initial-scale=1\">";
  if (refresh > 0) page += join("<meta http-equiv=refresh content=", refresh, ">");
  page += join("<title>", escape_html(title), "</title><style>", kReportStyle, "</style><main>", body);
  return page + join("</main><script>", kReportScript, "</script></html>\n");
}

std::string figure(const Chart& chart, bool log_scale) {
  if (!has_points(chart, false)) return "";
  std::string before, choice, drawing = svg(chart);
  if (log_scale && has_points(chart, true)) {
    Chart other = chart;
    other.logarithmic = true;
    drawing += svg(other);
    before = join("<input type=checkbox class=log id=", id_of(chart.title), ">");
    choice = join("<label for=", id_of(chart.title), ">log scale</label>");
  }
  return join("<figure class=card>", before, "<figcaption><strong>", escape_html(chart.title), "</strong>", legend(chart), choice,
              "</figcaption>", drawing, "<output></output></figure>");
}

Series step_series(const History& history, double StepRecord::* value) {
  Series series{.name = "each step", .x = {}, .y = {}, .faint = true};
  for (const StepRecord& r : history.steps())
    if (!r.skipped) series.x.push_back(double(r.step)), series.y.push_back(r.*value);
  return series;
}

Series validation_series(const History& history) {
  Series series{.name = "validation", .x = {}, .y = {}, .dots = true};
  for (const EvaluationRecord& r : history.evaluations()) series.x.push_back(double(r.step)), series.y.push_back(r.validation_loss);
  return series;
}

Series accuracy_series(const History& history) {
  Series series{.name = "exact match", .x = {}, .y = {}, .dots = true};
  for (const EvaluationRecord& r : history.evaluations()) series.x.push_back(double(r.step)), series.y.push_back(r.accuracy.value_or(NAN));
  return series;
}

std::vector<Series> task_series(const History& history) {
  std::vector<Series> all;
  for (const TasksRecord& record : history.tasks())
    for (const TaskScores& each : record.tasks) {
      if (each.scores.empty()) continue;
      const std::string name = join(each.task, " ", each.scores.front().metric, each.shots > 0 ? join(" (", each.shots, "-shot)") : "");
      auto found = std::find_if(all.begin(), all.end(), [&](const Series& series) { return series.name == name; });
      if (found == all.end()) found = all.insert(all.end(), Series{.name = name, .x = {}, .y = {}, .dots = true});
      found->x.push_back(double(record.step));
      found->y.push_back(each.scores.front().value);
    }
  return all;
}

bool is_bits_per_byte(const std::string& series) { return series.ends_with(" bits_per_byte"); }  // texts have no few-shot examples

Series smooth(const Series& each) {
  return {.name = "smoothed",
          .x = each.x,
          .y = smoothed_both_ways(each.y, std::clamp(double(each.y.size()) / 50, 2.0, 100.0)),
          .colour = each.colour};
}

double smoothed_loss(const History& history) {
  const Series losses = step_series(history, &StepRecord::loss);
  return losses.y.empty() ? NAN : smoothed(losses.y, 50).back();
}

}  // namespace weft
