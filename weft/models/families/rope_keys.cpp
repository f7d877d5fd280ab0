// Reads and writes the keys of rotary positions.
#include <array>
#include <cmath>

#include "weft/models/families/keys.h"

namespace weft::keys {

double positive(const JsonNode& node) {
  const double value = node.number();
  if (!(value > 0)) node.refuse("is ", value, ", expected a number above 0");
  return value;
}

double yarn_attention_factor(double factor) { return factor <= 1 ? 1 : 0.1 * std::log(factor) + 1; }

double longrope_attention_factor(double factor, int64_t original_context) {
  return factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(double(original_context)));
}

namespace {

using Kind = RopeScaling::Kind;

struct KindName {
  Kind kind;
  const char* name;
};
constexpr std::array kKinds{KindName{Kind::none, "default"},  KindName{Kind::linear, "linear"}, KindName{Kind::dynamic, "dynamic"},
                            KindName{Kind::llama3, "llama3"}, KindName{Kind::yarn, "yarn"},     KindName{Kind::longrope, "longrope"}};

// Older Phi-3 folders name longrope "su", and some "yarn".
Kind read_kind(const JsonNode& node, const ModelConfig& c) {
  const auto newer = node.find("rope_type"), older = node.find("type");
  const bool phi3 = c.architecture == Architecture::phi3;
  const auto meant = [&](const JsonNode& given) {
    const std::string text = given.text();
    return phi3 && (text == "su" || text == "yarn") ? "longrope" : text;
  };
  if (newer && older && meant(*newer) != meant(*older))
    newer->refuse("is '", shown(newer->text()), "' and type is '", shown(older->text()), "'");
  const std::string type = newer ? meant(*newer) : older ? meant(*older) : "default";
  for (const KindName& each : kKinds)
    if (type == each.name && (!phi3 || each.kind == Kind::none || each.kind == Kind::longrope)) return each.kind;
  (newer ? *newer : *older)
      .unsupported("is '", shown(type), "'; supported are ",
                   phi3 ? "default and longrope" : "default, linear, dynamic, llama3, yarn and longrope");
}

// original_max_position_embeddings, inside the scaling object or beside it. Default: 4096 for Phi-3, else max_position_embeddings.
int64_t original_context(const JsonNode& root, const JsonNode& node, const ModelConfig& c) {
  constexpr const char* kKey = "original_max_position_embeddings";
  const auto beside = root.find(kKey), inside = node.find(kKey);
  if (beside && inside && beside->number() != inside->number())
    inside->refuse("is ", inside->number(), " and ", beside->path(), " is ", beside->number());
  if (beside || inside) return (beside ? *beside : *inside).integer(1, kMost);
  return c.architecture == Architecture::phi3 ? 4096 : c.max_positions;
}

double factor_of(const JsonNode& node) {
  const double factor = node.at("factor").number();
  if (!(factor >= 1)) node.at("factor").refuse("is ", factor, ", expected 1 or more");
  return factor;
}

double yarn_magnitude(double factor, double mscale) { return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1; }

double yarn_attention_factor(const JsonNode& node, double factor) {
  if (const auto given = node.find("attention_factor")) return positive(*given);
  const double mscale = node.number_or("mscale", 0), all = node.number_or("mscale_all_dim", 0);
  return mscale != 0 && all != 0 ? yarn_magnitude(factor, mscale) / yarn_magnitude(factor, all) : yarn_magnitude(factor, 1);
}

std::vector<double> factors_of(const JsonNode& node, int64_t pairs) {
  std::vector<double> factors;
  for (const JsonNode& each : node.elements()) factors.push_back(positive(each));
  if (int64_t(factors.size()) != pairs)
    node.refuse("has ", factors.size(), " elements, expected one for each of ", pairs, " rotated pairs");
  return factors;
}

void read_llama3(const JsonNode& node, RopeScaling& s) {
  s.factor = factor_of(node);
  s.low_freq_factor = node.at("low_freq_factor").number();
  s.high_freq_factor = node.at("high_freq_factor").number();
  s.original_context = node.at("original_max_position_embeddings").integer(1, kMost);
  if (!(s.low_freq_factor > 0 && s.high_freq_factor > s.low_freq_factor))
    node.refuse("has low_freq_factor ", s.low_freq_factor, " and high_freq_factor ", s.high_freq_factor, ", expected 0 < low < high");
}

void read_yarn(const JsonNode& node, RopeScaling& s) {
  s.factor = factor_of(node);
  s.attention_factor = yarn_attention_factor(node, s.factor);
  const double fast = node.number_or("beta_fast", 32), slow = node.number_or("beta_slow", 1);
  s.beta_fast = fast == 0 ? 32 : fast;
  s.beta_slow = slow == 0 ? 1 : slow;
  s.truncate = node.boolean_or("truncate", true);
}

// The default attention factor is computed from the contexts in the file, not from the declared one.
void read_longrope(const JsonNode& node, const ModelConfig& c, RopeScaling& s) {
  s.short_factors = factors_of(node.at("short_factor"), c.rotary_dims() / 2);
  s.long_factors = factors_of(node.at("long_factor"), c.rotary_dims() / 2);
  const auto factor = node.find("factor"), attention = node.find("attention_factor");
  s.factor = factor ? positive(*factor) : double(c.max_positions) / double(s.original_context);
  s.attention_factor = attention ? positive(*attention) : longrope_attention_factor(s.factor, s.original_context);
}

RopeScaling read_scaling(const JsonNode& root, const JsonNode& node, const ModelConfig& c) {
  RopeScaling s{.kind = read_kind(node, c)};
  for (const auto& [key, member] : node.members())
    if (member.value().is_object()) member.unsupported("is an object; positions that differ by layer are not supported");
  if (s.kind == Kind::yarn || s.kind == Kind::longrope) s.original_context = original_context(root, node, c);
  switch (s.kind) {
    case Kind::none: break;
    case Kind::linear: s.factor = factor_of(node); break;
    case Kind::dynamic: s.factor = factor_of(node), s.original_context = c.max_positions; break;
    case Kind::llama3: read_llama3(node, s); break;
    case Kind::yarn: read_yarn(node, s); break;
    case Kind::longrope: read_longrope(node, c, s); break;
  }
  return s;
}

// Of the supported families only Phi-3 can rotate a part of a head in transformers.
void read_fraction(const JsonNode& root, ModelConfig& c) {
  for (const auto& object : {std::optional(root), root.find("rope_parameters"), root.find("rope_scaling")}) {
    const auto part = object ? object->find("partial_rotary_factor") : std::nullopt;
    if (!part || part->number() == 1) continue;
    if (c.architecture != Architecture::phi3) part->unsupported("is ", part->number(), "; only 1 is supported");
    c.rotary_fraction = part->number();
    if (!(c.rotary_fraction > 0 && c.rotary_fraction < 1)) part->refuse("is ", c.rotary_fraction, ", expected a number above 0, at most 1");
  }
}

double read_theta(const JsonNode& root, std::initializer_list<std::optional<JsonNode>> objects, double absent) {
  std::optional<JsonNode> chosen = root.find("rope_theta");
  for (const auto& object : objects) {
    const auto inner = object ? object->find("rope_theta") : std::nullopt;
    if (chosen && inner && chosen->number() != inner->number())
      inner->refuse("is ", inner->number(), " and ", chosen->path(), " is ", chosen->number());
    if (inner) chosen = inner;
  }
  return chosen ? positive(*chosen) : absent;
}

void read_scalings(const JsonNode& root, const std::optional<JsonNode>& parameters, const std::optional<JsonNode>& scaling,
                   ModelConfig& c) {
  if (scaling) c.rope_scaling = read_scaling(root, *scaling, c);
  if (!parameters) return;
  const RopeScaling newer = read_scaling(root, *parameters, c);
  if (scaling && !(newer == c.rope_scaling)) scaling->refuse("and rope_parameters do not agree");
  c.rope_scaling = newer;
}

}  // namespace

void read_rope(const JsonNode& root, ModelConfig& c, double absent_theta) {
  const auto parameters = root.find("rope_parameters"), scaling = root.find("rope_scaling");
  read_fraction(root, c);
  c.rope_theta = read_theta(root, {parameters, scaling}, absent_theta);
  read_scalings(root, parameters, scaling, c);
}

void read_layered_rope(const JsonNode& root, ModelConfig& c, double absent_theta, double local_theta) {
  const auto parameters = root.find("rope_parameters"), scaling = root.find("rope_scaling");
  const auto full = parameters ? parameters->find("full_attention") : std::nullopt;
  const auto sliding = parameters ? parameters->find("sliding_attention") : std::nullopt;
  if (parameters && !full && !sliding && !parameters->value().empty())
    parameters->unsupported(
        "has neither full_attention nor sliding_attention: versions of transformers disagree about the layers with a window");
  read_fraction(root, c);
  c.rope_theta = read_theta(root, {full, scaling}, absent_theta);
  read_scalings(root, full, scaling, c);
  c.local_rope_theta = sliding && sliding->find("rope_theta") ? positive(sliding->at("rope_theta")) : local_theta;
  if (sliding && read_kind(*sliding, c) != Kind::none)
    sliding->unsupported("has a rope_type other than default; layers with a window have no scaling here");
}

Ordered rope_parameters(double theta, const RopeScaling& s) {
  Ordered out;
  for (const KindName& each : kKinds)
    if (each.kind == s.kind) out["rope_type"] = each.name;
  out["rope_theta"] = theta;
  if (s.kind != Kind::none) out["factor"] = s.factor;
  if (s.kind == Kind::llama3 || s.kind == Kind::yarn || s.kind == Kind::longrope)
    out["original_max_position_embeddings"] = s.original_context;
  if (s.kind == Kind::llama3) out["low_freq_factor"] = s.low_freq_factor, out["high_freq_factor"] = s.high_freq_factor;
  if (s.kind == Kind::yarn || s.kind == Kind::longrope) out["attention_factor"] = s.attention_factor;
  if (s.kind == Kind::yarn) out["beta_fast"] = s.beta_fast, out["beta_slow"] = s.beta_slow, out["truncate"] = s.truncate;
  if (s.kind == Kind::longrope) out["short_factor"] = s.short_factors, out["long_factor"] = s.long_factors;
  return out;
}

}  // namespace weft::keys
