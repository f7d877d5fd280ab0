"""Conversations that chat templates are tried on: with and without system, tools, thinking; odd roles, missing fields, many scripts."""

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Get the current weather.\nIn one place.",
    "parameters": {"type": "object", "properties": {
        "location": {"type": "string", "description": "City and country, e.g. \"Paris, France\""},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        "days": {"type": ["integer", "null"], "minimum": 0, "maximum": 14}},
        "required": ["location"]}}}
SEARCH = {"type": "function", "function": {
    "name": "search", "description": "Search <the> web & more",
    "parameters": {"type": "object", "properties": {
        "query": {"type": "string"},
        "filters": {"type": "object", "properties": {"site": {"type": "string"}, "since": {"type": "number"}}},
        "tags": {"type": "array", "items": {"type": "string"}}},
        "required": ["query", "tags"]},
    "return": {"type": "object", "properties": {"hits": {"type": "array", "items": {"type": "object"}}}}}}
PYTHON = {"type": "function", "function": {"name": "python", "description": "", "parameters": {"type": "object", "properties": {}}}}
BARE = {"name": "bare", "description": "no function key", "parameters": {"type": "object", "properties": {"x": {"type": "boolean"}}}}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


def call(name, arguments, identifier="call00001"):
    return {"type": "function", "id": identifier, "function": {"name": name, "arguments": arguments}}


CALL = call("get_weather", {"location": "Paris, France", "unit": "celsius"})
TEXT_CALL = call("get_weather", '{"location": "Paris, France"}')
RESULT = {"role": "tool", "content": '{"temperature": 21.5}', "name": "get_weather", "tool_call_id": "call00001"}


def conversations():
    """(name, {"messages", "tools", "documents", further variables}) of each."""
    hello = user("Hello, who are you?")
    turns = [hello, assistant("I am an assistant."), user("And what can you do?")]
    tool_turn = [user("How is the weather in Paris?"), assistant("", tool_calls=[CALL]), RESULT]
    thought = "<think>\nThe user greets me.\n</think>\n\nHi!"
    cases = {
        "one_user": {"messages": [hello]},
        "system_user": {"messages": [system("You are terse."), hello]},
        "turns": {"messages": turns},
        "system_turns": {"messages": [system("You are terse.")] + turns},
        "ends_with_assistant": {"messages": turns + [assistant("Much.")]},
        "spaces": {"messages": [system("  \n padded system\t "), user("  padded \n\n"), assistant(" \n answer \n"), user("\tx")]},
        "empty_contents": {"messages": [system(""), user(""), assistant(""), user("")]},
        "unicode": {"messages": [system("你是助手。"), user("Grüße, ça va? 😀 Ελλάς \u00a0ß \u2028 İ"), assistant("नमस्ते\u200d"), user("שלום عليكم")]},
        "control_tokens": {"messages": [user("<|im_end|><|eot_id|></s>[/INST]<end_of_turn> {{ x }} {% raw %}"), assistant("<s>\\n\"quoted\" 'single'"), user("a\\b")]},
        "two_users": {"messages": [user("first"), user("second")]},
        "two_systems": {"messages": [system("one"), system("two"), hello]},
        "late_system": {"messages": [hello, assistant("Hi."), system("Now be formal."), user("Again.")]},
        "assistant_first": {"messages": [assistant("Welcome!"), hello]},
        "developer": {"messages": [{"role": "developer", "content": "Answer in French."}, hello]},
        "odd_role": {"messages": [hello, {"role": "critic", "content": "Not good."}]},
        "only_system": {"messages": [system("alone")]},
        "no_content": {"messages": [{"role": "user"}]},
        "null_content": {"messages": [hello, {"role": "assistant", "content": None}, user("?")]},
        "no_role": {"messages": [{"content": "who said this?"}]},
        "parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": "What is "}, {"type": "text", "text": "this?"}]}]},
        "image": {"messages": [{"role": "user", "content": [{"type": "image", "image": "x.png"}, {"type": "text", "text": "Describe it."}]}]},
        "system_parts": {"messages": [{"role": "system", "content": [{"type": "text", "text": "Be brief."}]}, {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
                                      {"role": "assistant", "content": [{"type": "text", "text": "Hello."}]}, {"role": "user", "content": [{"type": "text", "text": "Bye"}]}]},
        "tools": {"messages": [system("Use tools."), user("How is the weather in Paris?")], "tools": [WEATHER]},
        "tools_no_system": {"messages": [user("How is the weather in Paris?")], "tools": [WEATHER, SEARCH, PYTHON]},
        "tools_bare": {"messages": [hello], "tools": [BARE]},
        "tools_empty": {"messages": [hello], "tools": []},
        "tool_turn": {"messages": tool_turn, "tools": [WEATHER]},
        "tool_turn_more": {"messages": [system("s")] + tool_turn + [assistant("It is 21.5 degrees."), user("Thanks!")], "tools": [WEATHER, SEARCH]},
        "tool_turn_no_tools": {"messages": tool_turn + [assistant("21.5.")]},
        "tool_text_arguments": {"messages": [user("Weather?"), assistant(None, tool_calls=[TEXT_CALL]), RESULT], "tools": [WEATHER]},
        "tool_parallel": {"messages": [user("Weather and news?"), assistant("I will look.", tool_calls=[
            CALL, call("search", {"query": "news & <more>", "tags": ["a", "b"], "filters": {"since": 2024.0, "site": None}}, "call00002")]), RESULT,
            {"role": "tool", "content": "no news", "name": "search", "tool_call_id": "call00002"}], "tools": [WEATHER, SEARCH]},
        "tool_no_arguments": {"messages": [user("Run."), assistant("", tool_calls=[call("python", {})]), {"role": "tool", "content": ""}], "tools": [PYTHON]},
        "tool_dict_result": {"messages": [user("Run."), assistant("", tool_calls=[CALL]), {"role": "tool", "content": {"temperature": 21.5, "ok": True}, "name": "get_weather", "tool_call_id": "call00001"}], "tools": [WEATHER]},
        "tool_short_id": {"messages": [user("Run."), assistant("", tool_calls=[call("python", {"code": "1 + 1"}, "7")]), {"role": "tool", "content": "2", "tool_call_id": "7"}], "tools": [PYTHON]},
        "tool_bare_call": {"messages": [user("Run."), assistant("", tool_calls=[{"name": "python", "arguments": {"code": "print('hi')\n"}}]), {"role": "tool", "content": "hi"}]},
        "tool_role_function": {"messages": [user("Run."), {"role": "function", "name": "python", "content": "hi"}]},
        "tool_values": {"messages": [user("Run."), assistant("", tool_calls=[call("f", {"s": "a \"b\"\n", "i": -3, "f": 0.1, "big": 1e20, "t": True, "n": None, "l": [1, [2.5, "x"]], "o": {"k": {}}, "é": "ü"})])]},
        "reasoning": {"messages": [hello, assistant("Hi!", reasoning_content="The user greets me."), user("And now?")]},
        "reasoning_last": {"messages": [hello, assistant("Hi!", reasoning_content="The user greets me.\n")]},
        "reasoning_tool": {"messages": [user("Weather?"), assistant("", reasoning_content="I need the tool.", tool_calls=[CALL]), RESULT, assistant("21.5", thinking="easy")], "tools": [WEATHER]},
        "reasoning_name": {"messages": [hello, assistant("Hi!", reasoning="a"), user("x"), assistant("y", thinking="b"), user("z")]},
        "think_inline": {"messages": [hello, assistant(thought), user("And now?")]},
        "think_inline_last": {"messages": [hello, assistant(thought)]},
        "thinking_on": {"messages": turns, "enable_thinking": True, "thinking": True},
        "thinking_off": {"messages": turns, "enable_thinking": False, "thinking": False},
        "thinking_off_tools": {"messages": [system("s")] + turns, "tools": [WEATHER], "enable_thinking": False},
        "think_command": {"messages": [system("s /no_think"), user("x /think")]},
        "effort": {"messages": turns, "reasoning_effort": "high", "model_identity": "You are Weft.", "builtin_tools": ["browser", "python"]},
        "documents": {"messages": turns, "documents": [{"title": "Manual", "text": "Press <start>."}, {"title": "Note", "text": "ünicode", "doc_id": 2}]},
        "dates": {"messages": [hello], "date_string": "26 Jul 2024", "current_date": "2025-01-02", "knowledge_cutoff": "June 2024"},
        "named_users": {"messages": [dict(hello, name="ann"), assistant("Hi Ann."), dict(hello, name="bob")]},
        "numbers_as_content": {"messages": [user(5), assistant(1.5), user(True)]},
        "long": {"messages": [m for i in range(20) for m in (user(f"question {i}"), assistant(f"answer {i}"))] + [user("last")]},
    }
    return cases.items()
