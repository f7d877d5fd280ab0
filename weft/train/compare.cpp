#include "weft/train/compare.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "weft/base/check.h"
#include "weft/train/progress.h"
#include "weft/train/report_parts.h"
#include "weft/train/setup.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

std::string cell(const std::string& text, const char* kind = "td") { return join("<", kind, ">", escape_html(text), "</", kind, ">"); }

std::string swatch(size_t run) { return join("<i class=\"", colour_class(int(run)), "\"></i>"); }

using Column = std::pair<const char*, std::function<std::string(const ComparedRun&)>>;

std::string loss_text(double loss) { return std::isfinite(loss) ? decimals("%.4f", loss) : ""; }

// The columns of the table of results; "" where a run has no such result.
std::vector<Column> columns() {
  const auto of_steps = [](auto text) {
    return [=](const ComparedRun& run) { return run.history.steps().empty() ? std::string() : text(run.history); };
  };
  const auto of_last = [](auto text) {
    return
        [=](const ComparedRun& run) { return run.history.evaluations().empty() ? std::string() : text(run.history.evaluations().back()); };
  };
  const auto of_best = [](auto text) {
    return [=](const ComparedRun& run) { return run.history.best() ? text(*run.history.best()) : std::string(); };
  };
  return {
      {"steps",
       [](const ComparedRun& run) {
         const int64_t done = run.history.steps().empty() ? 0 : run.history.steps().back().step;
         return run.config.epochs > 0 ? join(done, " of ", run.config.epochs, " epochs") : join(done, " of ", run.config.steps);
       }},
      {"training loss", of_steps([](const History& h) { return loss_text(smoothed_loss(h)); })},
      {"validation loss", of_last([](const EvaluationRecord& r) { return loss_text(r.validation_loss); })},
      {"best validation", of_best([](const EvaluationRecord& r) { return join(loss_text(r.validation_loss), " at ", r.step); })},
      {"best perplexity", of_best([](const EvaluationRecord& r) { return decimals("%.4g", std::exp(r.validation_loss)); })},
      {"unseen right", of_last([](const EvaluationRecord& r) { return r.accuracy ? decimals("%.1f %%", 100 * *r.accuracy) : ""; })},
      {"tokens a second", of_steps([](const History& h) { return count_text(median(step_series(h, &StepRecord::tokens_per_second).y)); })},
      {"time", of_steps([](const History& h) { return duration_text(h.steps().back().seconds); })}};
}

// The scores of a run on a task, as task_series names them; empty if it has none.
Series scores_of(const History& history, const std::string& name) {
  for (Series& series : task_series(history))
    if (series.name == name) return series;
  return {};
}

// The tasks of all runs.
std::vector<std::string> task_names(const std::vector<ComparedRun>& runs) {
  std::vector<std::string> names;
  for (const ComparedRun& run : runs)
    for (const Series& series : task_series(run.history))
      if (std::find(names.begin(), names.end(), series.name) == names.end()) names.push_back(series.name);
  return names;
}

// The table of results, without columns that are empty for all runs.
std::string results(const std::vector<ComparedRun>& runs) {
  std::string head = "<tr><th>run</th>";
  std::vector<std::string> rows;
  for (size_t i = 0; i < runs.size(); ++i) rows.push_back(join("<tr><th>", swatch(i), escape_html(runs[i].name), "</th>"));
  for (const auto& [name, text_of] : columns()) {
    if (std::all_of(runs.begin(), runs.end(), [&](const ComparedRun& run) { return text_of(run).empty(); })) continue;
    head += cell(name, "th");
    for (size_t i = 0; i < runs.size(); ++i) rows[i] += cell(text_of(runs[i]));
  }
  for (const std::string& name : task_names(runs)) {
    head += cell(name, "th");
    for (size_t i = 0; i < runs.size(); ++i) {
      const Series scores = scores_of(runs[i].history, name);
      rows[i] += cell(scores.y.empty() ? "" : decimals("%.4f", scores.y.back()));
    }
  }
  std::string out = "<div class=\"card scroll\"><table class=results>" + head + "</tr>";
  for (const std::string& row : rows) out += row + "</tr>";
  return out + "</table></div>";
}

// The settings in which the runs differ, other than the output folder.
std::string differences(const std::vector<ComparedRun>& runs) {
  std::string rows;
  for (const Setting& setting : settings()) {
    std::vector<std::string> values;
    for (const ComparedRun& run : runs) values.push_back(setting_text(run.config, setting));
    if (setting.key == "out" || std::all_of(values.begin(), values.end(), [&](const std::string& v) { return v == values[0]; })) continue;
    rows += "<tr>" + cell(std::string(setting.key), "th");
    for (const std::string& value : values) rows += cell(value);
    rows += "</tr>";
  }
  if (rows.empty()) return runs.size() > 1 ? "<p class=sub>The runs have the same settings.</p>" : "";
  std::string out = "<h2>Settings that differ</h2><div class=\"card scroll\"><table><tr><th></th>";
  for (size_t i = 0; i < runs.size(); ++i) out += join("<th>", swatch(i), escape_html(runs[i].name), "</th>");
  return out + "</tr>" + rows + "</table></div>";
}

std::string charts(const std::vector<ComparedRun>& runs) {
  std::string out = "<div class=charts>";
  const auto add = [&](Chart chart, bool log_scale, auto series_of) {
    for (size_t i = 0; i < runs.size(); ++i) {
      Series series = series_of(runs[i].history);
      series.name = runs[i].name;
      series.colour = int(i);
      chart.series.push_back(std::move(series));
    }
    out += figure(chart, log_scale);
  };
  const auto smoothed_steps = [](double StepRecord::* value) {
    return [value](const History& h) { return smooth(step_series(h, value)); };
  };
  add({.title = "Training loss, smoothed", .y_label = "nats per token", .series = {}}, true, smoothed_steps(&StepRecord::loss));
  add({.title = "Validation loss", .y_label = "nats per token", .series = {}}, true, validation_series);
  add({.title = "Exact match on unseen examples",
       .y_label = "share right",
       .series = {},
       .from_zero = true,
       .percent = true,
       .whole = true},
      false, accuracy_series);
  for (const std::string& name : task_names(runs)) {
    const bool share = !is_bits_per_byte(name);
    add({.title = "Task " + name,
         .y_label = share ? "share right" : "bits per byte",
         .series = {},
         .from_zero = share,
         .percent = share,
         .whole = share},
        false, [&](const History& h) { return scores_of(h, name); });
  }
  add({.title = "Learning rate", .y_label = "learning rate", .series = {}, .from_zero = true}, false, [](const History& h) {
    Series rate = step_series(h, &StepRecord::learning_rate);
    rate.faint = false;
    return rate;
  });
  add({.title = "Gradient norm, smoothed", .y_label = "L2 norm, before clipping", .series = {}, .from_zero = true}, true,
      smoothed_steps(&StepRecord::gradient_norm));
  add({.title = "Tokens a second, smoothed", .y_label = "tokens a second", .series = {}, .from_zero = true}, false,
      smoothed_steps(&StepRecord::tokens_per_second));
  return out + "</div>";
}

}  // namespace

ComparedRun read_run(const std::string& folder) {
  const fs::path config = fs::path(folder) / "config.toml", metrics = fs::path(folder) / "metrics.jsonl";
  if (!fs::is_directory(folder)) fail(ErrorCode::bad_file, folder, "is not a folder, expected the folder of a run of weft train");
  for (const fs::path& file : {config, metrics})
    if (!fs::exists(file)) fail(ErrorCode::bad_file, folder, "is not the folder of a run: it has no ", file.filename().string());
  ComparedRun run{last_name(folder), {}, History::read(metrics.string())};
  run.config = read_run_config(config.string());
  return run;
}

std::string comparison_page(const std::vector<ComparedRun>& runs, const std::string& written) {
  const std::string title = runs.size() == 1 ? runs[0].name : join(runs.size(), " runs");
  std::string body = join("<h1>", escape_html(title), "</h1>");
  body += results(runs) + charts(runs) + differences(runs);
  return html_page(title, body + join("<footer>Written by weft report, ", escape_html(written), ".</footer>"));
}

}  // namespace weft
