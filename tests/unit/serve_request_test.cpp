// Requests of weft serve: parsing of their JSON, and the parameter named by each error.
#include "weft/serve/request.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "weft/serve/api_error.h"
#include "weft/serve/metrics.h"

namespace weft::serve {
namespace {

template <class Parse>
ApiError error_of(Parse parse, const std::string& body) {
  try {
    parse(body);
  } catch (const ApiError& error) {
    return error;
  }
  ADD_FAILURE() << "accepted: " << body.substr(0, 200);
  return {};
}

TEST(ServeRequest, PromptForms) {
  EXPECT_EQ(parse_completion(R"({"prompt": "a"})").prompts, std::vector<Prompt>{"a"});
  EXPECT_EQ(parse_completion(R"({"prompt": ["a", "b"]})").prompts, (std::vector<Prompt>{"a", "b"}));
  EXPECT_EQ(parse_completion(R"({"prompt": [1, 2]})").prompts, (std::vector<Prompt>{Ids{1, 2}}));
  EXPECT_EQ(parse_completion(R"({"prompt": [[1, 2], [3]]})").prompts, (std::vector<Prompt>{Ids{1, 2}, Ids{3}}));
}

TEST(ServeRequest, Completion) {
  const auto r = parse_completion(R"({"model": "m", "prompt": "a", "temperature": 0.5, "top_p": 0.9, "top_k": 3, "min_p": 0.1, "seed": 7,
    "repetition_penalty": 1.1, "max_tokens": 5, "n": 2, "stop": "x", "logprobs": 3, "echo": true})");
  EXPECT_FALSE(r.chat);
  EXPECT_EQ(r.model, "m");
  EXPECT_EQ(r.sampling.temperature, 0.5);
  EXPECT_EQ(r.sampling.top_p, 0.9);
  EXPECT_EQ(r.sampling.top_k, 3);
  EXPECT_EQ(r.sampling.min_p, 0.1);
  EXPECT_EQ(r.sampling.repetition_penalty, 1.1);
  EXPECT_EQ(r.sampling.seed, 7u);
  EXPECT_EQ(r.max_tokens, 5);
  EXPECT_EQ(r.n, 2);
  EXPECT_EQ(r.stop, std::vector<std::string>{"x"});
  EXPECT_TRUE(r.log_probabilities && r.echo && !r.stream);
  EXPECT_EQ(r.top_log_probabilities, 3);
}

TEST(ServeRequest, NullIsAbsent) {
  const auto r = parse_completion(R"({"prompt": "a", "temperature": null, "stop": null, "seed": null, "logprobs": null, "suffix": null})");
  EXPECT_FALSE(r.sampling.temperature || r.sampling.seed || r.log_probabilities);
  EXPECT_TRUE(r.stop.empty());
  EXPECT_EQ(parse_completion(R"({"prompt": "a", "stop": ["", "b"], "top_p": 0, "functions": []})").stop, std::vector<std::string>{"b"});
  EXPECT_EQ(parse_completion(R"({"prompt": "a", "stop": ")" + std::string(1024, 'b') + "\"}").stop.size(), 1u);
  EXPECT_THROW(parse_completion(R"({"prompt": "a", "stop": ")" + std::string(1025, 'b') + "\"}"), ApiError);
}

TEST(ServeRequest, Chat) {
  const auto r =
      parse_chat(R"({"messages": [{"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "user", "content": "q"}, {"role": "assistant", "content": null, "tool_calls": []}], "tools": [{"z": 1, "a": 2}],
    "chat_template_kwargs": {"enable_thinking": false}, "max_completion_tokens": 9, "logprobs": true, "top_logprobs": 2,
    "stream": true, "stream_options": {"include_usage": true}})");
  EXPECT_TRUE(r.chat && r.stream && r.include_usage && r.log_probabilities);
  EXPECT_EQ(r.max_tokens, 9);
  EXPECT_EQ(r.top_log_probabilities, 2);
  EXPECT_NE(r.conversation.find(R"({"role":"system","content":"ab"})"), std::string::npos) << r.conversation;
  EXPECT_NE(r.conversation.find(R"("tools":[{"z":1,"a":2}])"), std::string::npos) << "the order of keys: " << r.conversation;
  EXPECT_NE(r.conversation.find(R"("enable_thinking":false)"), std::string::npos);
}

// OpenAI's clients send the arguments of a call as text; templates see the object, in its order.
TEST(ServeRequest, ArgumentsOfToolCallsAreObjects) {
  const auto conversation = [](const std::string& arguments) {
    return parse_chat(R"({"messages": [{"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": )" +
                      arguments + "}}]}]}")
        .conversation;
  };
  const auto has = [](const std::string& text, const std::string& part) { return text.find(part) != text.npos; };
  EXPECT_TRUE(has(conversation(R"("{\"z\": 1, \"a\": [2]}")"), R"("arguments":{"z":1,"a":[2]})"));
  EXPECT_TRUE(has(conversation(R"({"z": 1})"), R"("arguments":{"z":1})"));
  EXPECT_TRUE(has(conversation(R"("not JSON")"), R"("arguments":"not JSON")"));
  EXPECT_TRUE(has(conversation(R"("[1]")"), R"("arguments":"[1]")"));
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  EXPECT_TRUE(has(conversation("\"{\\\"a\\\": " + deep + "}\""), R"("arguments":"{)"));
  for (const char* kept : {R"("{\"a\": 18446744073709551615}")", R"("{\"a\": 18446744073709551616}")", R"("{\"a\": [-1e300]}")"})
    EXPECT_TRUE(has(conversation(kept), std::string(R"("arguments":)") + std::string(kept))) << kept << conversation(kept);
  const std::string lists = std::string(58, '[') + std::string(58, ']');
  EXPECT_TRUE(has(conversation("\"{\\\"a\\\": " + lists + "}\""), R"("arguments":"{)"));
  EXPECT_TRUE(has(conversation(R"("{\"a\": [9223372036854775807, 1.5, -3]}")"), R"("arguments":{"a":[9223372036854775807,1.5,-3]})"));
}

TEST(ServeRequest, WrongCompletions) {
  const std::pair<const char*, const char*> wrong[] = {
      {R"({})", "prompt"},
      {R"({"prompt": 3})", "prompt"},
      {R"({"prompt": []})", "prompt"},
      {R"({"prompt": [1, "a"]})", "prompt"},
      {R"({"prompt": [-1]})", "prompt"},
      {R"({"prompt": [3000000000]})", "prompt"},
      {R"({"prompt": [1.5]})", "prompt"},
      {R"({"prompt": ["a", 1]})", "prompt"},
      {R"({"prompt": "a", "temperature": -1})", "temperature"},
      {R"({"prompt": "a", "temperature": "hot"})", "temperature"},
      {R"({"prompt": "a", "top_p": -0.1})", "top_p"},
      {R"({"prompt": "a", "functions": [{"name": "f"}]})", "functions"},
      {R"({"prompt": "a", "top_p": 1.1})", "top_p"},
      {R"({"prompt": "a", "max_tokens": -1})", "max_tokens"},
      {R"({"prompt": "a", "max_tokens": 1.5})", "max_tokens"},
      {R"({"prompt": "a", "max_tokens": 18446744073709551615})", "max_tokens"},
      {R"({"prompt": "a", "n": 0})", "n"},
      {R"({"prompt": "a", "n": 100000})", "n"},
      {R"({"prompt": ["a", "b"], "n": 1024})", "prompt"},
      {R"({"prompt": "a", "stop": [1]})", "stop"},
      {R"({"prompt": "a", "stop": {}})", "stop"},
      {R"({"prompt": "a", "logprobs": 21})", "logprobs"},
      {R"({"prompt": "a", "logprobs": true})", "logprobs"},
      {R"({"prompt": "a", "stream": 1})", "stream"},
      {R"({"prompt": "a", "stream_options": {}})", "stream_options"},
      {R"({"prompt": "a", "model": 1})", "model"},
      {R"({"prompt": "a", "best_of": 3})", "best_of"},
      {R"({"prompt": "a", "suffix": "b"})", "suffix"},
      {R"({"prompt": "a", "logit_bias": {"1": 2}})", "logit_bias"},
      {R"({"prompt": "a", "presence_penalty": 1})", "presence_penalty"},
      {R"({"prompt": "a", "echo": true, "logprobs": 1, "stream": true})", "stream"},
  };
  for (const auto& [body, param] : wrong) {
    const ApiError error = error_of(parse_completion, body);
    EXPECT_EQ(error.status, 400) << body;
    EXPECT_EQ(error.param, param) << body << ": " << error.message;
    EXPECT_NE(error.message.find(param), std::string::npos) << error.message;
  }
}

TEST(ServeRequest, WrongChats) {
  const std::pair<const char*, const char*> wrong[] = {
      {R"({})", "messages"},
      {R"({"messages": []})", "messages"},
      {R"({"messages": {}})", "messages"},
      {R"({"messages": ["a"]})", "messages.0"},
      {R"({"messages": [{"content": "a"}]})", "messages.0.role"},
      {R"({"messages": [{"role": 1}]})", "messages.0.role"},
      {R"({"messages": [{"role": "user", "content": 1}]})", "messages.0.content"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})", "messages.0.content"},
      {R"({"messages": [{"role": "user", "content": ["a"]}]})", "messages.0.content"},
      {R"({"messages": [{"role": "user", "content": [{"type": 3, "text": "a"}]}]})", "messages.0.content"},
      {R"({"messages": [{"role": "user", "content": "a"}], "tools": 1})", "tools"},
      {R"({"messages": [{"role": "user", "content": "a"}], "top_logprobs": 1})", "top_logprobs"},
      {R"({"messages": [{"role": "user", "content": "a"}], "response_format": {"type": "json_object"}})", "response_format"},
      {R"({"messages": [{"role": "user", "content": "a"}], "tool_choice": "required"})", "tool_choice"},
      {R"({"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": 1})", "chat_template_kwargs"},
  };
  for (const auto& [body, param] : wrong) {
    const ApiError error = error_of(parse_chat, body);
    EXPECT_EQ(error.status, 400) << body;
    EXPECT_EQ(error.param, param) << body << ": " << error.message;
  }
}

TEST(ServeRequest, WrongJson) {
  const std::string deep = R"({"prompt": )" + std::string(100000, '[') + std::string(100000, ']') + "}";
  for (const std::string& body :
       {std::string(), std::string("{"), std::string("[]"), std::string("\"a\""), std::string("{\"prompt\": \"\xff\"}"),
        std::string(R"({"prompt": "a", "prompt": "b"})"), deep, std::string(200000, '[')}) {
    for (const ApiError& error : {error_of(parse_completion, body), error_of(parse_chat, body), error_of(parse_tokenize, body)}) {
      EXPECT_EQ(error.status, 400);
      EXPECT_EQ(error.code, "invalid_json") << error.message;
    }
  }
}

// Values of a valid request in each other's places, and bytes changed: accepted, or one ApiError of status 400.
TEST(ServeRequest, Mutations) {
  const std::string whole =
      R"({"model": "m", "prompt": [1, 2], "text": "t", "messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]}],
    "tools": [{"a": {"b": [1.5e3, null]}}], "tool_choice": "auto", "chat_template_kwargs": {"x": true}, "temperature": 0.5, "top_p": 0.9,
    "top_k": -1, "min_p": 0.1, "repetition_penalty": 1.1, "seed": -7, "max_tokens": 5, "max_completion_tokens": 5, "n": 2, "stop": ["x"],
    "stream": true, "stream_options": {"include_usage": true}, "logprobs": null, "top_logprobs": 0, "echo": false, "best_of": 2,
    "logit_bias": {}, "response_format": {"type": "text"}, "suffix": "", "presence_penalty": 0})";
  const auto survive = [](const std::string& body) {
    for (const auto& parse : {+[](const std::string& b) { parse_completion(b); }, +[](const std::string& b) { parse_chat(b); },
                              +[](const std::string& b) { parse_tokenize(b); }}) {
      try {
        parse(body);
      } catch (const ApiError& error) {
        ASSERT_EQ(error.status, 400) << body;
      } catch (const std::exception& error) {
        FAIL() << error.what() << ": " << body;
      }
    }
  };
  const auto values = nlohmann::json::parse(whole);
  for (const auto& [key, _] : values.items())
    for (const auto& [from, value] : values.items()) {
      nlohmann::json body = values;
      body[key] = value;
      survive(body.dump());
      body[key] = nlohmann::json::array({value, value});
      survive(body.dump());
      body = values;
      body["messages"][0][key] = value;
      body["messages"][0]["content"] = value;
      survive(body.dump());
    }
  std::mt19937 random(1);
  const std::string_view bytes = "{}[]\",:0-1e9.\\tnu \xff\x00\xc3";
  for (int i = 0; i < 5000; ++i) {
    std::string body = whole;
    for (int k = 0; k < 3; ++k) body[random() % body.size()] = bytes[random() % bytes.size()];
    if (i % 4 == 0) body.resize(random() % body.size());
    survive(body);
  }
}

TEST(ServeRequest, Tokenize) {
  EXPECT_EQ(parse_tokenize(R"({"text": "a"})").text, "a");
  EXPECT_EQ(parse_tokenize(R"({"prompt": "a", "add_special_tokens": false})").add_special, false);
  EXPECT_FALSE(parse_tokenize(R"({"messages": [{"role": "user", "content": "a"}]})").text);
  EXPECT_EQ(error_of(parse_tokenize, R"({})").param, "text");
  EXPECT_EQ(error_of(parse_tokenize, R"({"text": "a", "messages": []})").param, "text");
}

TEST(ServeMetrics, Text) {
  Metrics metrics;
  metrics.count_request("/health", 200);
  metrics.count_request("/health", 200);
  metrics.count_first_token(0.02);
  metrics.count_first_token(1000);
  metrics.new_tokens = 3;
  const std::string text = metrics.text();
  for (const char* line :
       {"weft_requests_total{endpoint=\"/health\",status=\"200\"} 2\n", "weft_new_tokens_total 3\n",
        "weft_time_to_first_token_seconds_bucket{le=\"0.01\"} 0\n", "weft_time_to_first_token_seconds_bucket{le=\"0.025\"} 1\n",
        "weft_time_to_first_token_seconds_bucket{le=\"+Inf\"} 2\n", "weft_time_to_first_token_seconds_count 2\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

}  // namespace
}  // namespace weft::serve
