#include "cli/sampling_flags.h"

#include <charconv>
#include <cstdio>

#include "weft/base/check.h"

namespace weft::cli {
namespace {

template <class T>
T number(std::string_view name, const std::string& text) {
  T value = {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  check(error == std::errc() && end == text.data() + text.size(), "chat", name, " is '", text, "', expected ",
        std::is_floating_point_v<T> ? "a number" : "an integer");
  return value;
}

}  // namespace

void SamplingFlags::add_to(CLI::App& command) {
  command.add_option("--temperature,--temp", temperature,
                     "Sampling temperature, 0 is greedy (default: the folder's, else 0; 1 if --top-k, --top-p or --min-p is given)");
  command.add_option("--top-k", top_k, "Sample from the k most likely tokens only");
  command.add_option("--top-p", top_p, "Sample from the smallest set of most likely tokens whose probability reaches p");
  command.add_option("--min-p", min_p, "Sample from tokens at least p times as likely as the most likely one");
  command.add_option("--repetition-penalty", repetition_penalty, "Factor by which tokens seen before become less likely");
  command.add_option("--seed", seed, "Seed of the sampler")->capture_default_str();
}

SamplingOptions SamplingFlags::sampling(const ModelFolder& folder) const {
  SamplingOptions sampling = sampling_of(folder.generation());
  const bool filtered = top_k || top_p || min_p;
  if (filtered && sampling.temperature == 0) sampling.temperature = 1;
  sampling.temperature = temperature.value_or(sampling.temperature);
  sampling.top_k = top_k.value_or(sampling.top_k);
  sampling.top_p = top_p.value_or(sampling.top_p);
  sampling.min_p = min_p.value_or(sampling.min_p);
  sampling.repetition_penalty = repetition_penalty.value_or(sampling.repetition_penalty);
  sampling.seed = seed;
  return sampling;
}

void SamplingFlags::tell(const ModelFolder& folder) const {
  const SamplingOptions file = sampling_of(folder.generation()), none;
  std::string text;
  const auto add = [&](const char* name, bool flag_given, double value, double off) {
    if (!flag_given && value != off) text += join(text.empty() ? "" : ", ", name, " ", value);
  };
  add("temperature", temperature.has_value(), file.temperature, none.temperature);
  if (temperature.value_or(1) > 0) {
    add("top-k", top_k.has_value(), double(file.top_k), double(none.top_k));
    add("top-p", top_p.has_value(), file.top_p, none.top_p);
    add("min-p", min_p.has_value(), file.min_p, none.min_p);
  }
  add("repetition penalty", repetition_penalty.has_value(), file.repetition_penalty, none.repetition_penalty);
  if (!text.empty())
    std::fprintf(stderr, "using %s from generation_config.json; flags override it, --temperature 0 is greedy\n", text.c_str());
}

std::vector<std::string> SamplingFlags::names() {
  return {"temperature", "top-k", "top-p", "min-p", "repetition-penalty", "seed", "max-tokens"};
}

bool SamplingFlags::set(std::string_view name, const std::string& value) {
  if (name == "temperature")
    temperature = number<double>(name, value);
  else if (name == "top-k")
    top_k = number<int64_t>(name, value);
  else if (name == "top-p")
    top_p = number<double>(name, value);
  else if (name == "min-p")
    min_p = number<double>(name, value);
  else if (name == "repetition-penalty")
    repetition_penalty = number<double>(name, value);
  else if (name == "seed")
    seed = number<uint64_t>(name, value);
  else if (name == "max-tokens")
    max_tokens = number<int64_t>(name, value);
  else
    return false;
  return true;
}

}  // namespace weft::cli
