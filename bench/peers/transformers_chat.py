"""transformers_chat.py TOOL FOLDER...: conversations in a model folder, by weft and by Hugging Face's transformers.

Compares the rendered text, the ids and, if the template marks them, the assistant's tokens of `weft tokenize --chat` with
apply_chat_template, and the greedy answers of `weft generate --chat` with model.generate in f32. Needs torch and transformers.
"""
import json
import subprocess
import sys
import tempfile

import torch
import transformers

CONVERSATIONS = [
    [("user", "Hello")],
    [("system", "Be brief."), ("user", "What is your name?")],
    [("user", "What is your name?"), ("assistant", "I am Weft."), ("user", "Say hello.")],
    [("system", "Sei höflich. 你好"), ("user", "  spaces  \n\n"), ("assistant", "a\nb <|im_end|> c"), ("user", "{{ messages }} {% raw %} 🙂")],
    [("user", "1"), ("assistant", "2"), ("user", "3"), ("assistant", "4")],
]


def weft(tool, command, folder, talk, *flags):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(talk, file)
        file.flush()
        done = subprocess.run([tool, command, folder, "--chat", file.name, "--json", *flags], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr}


def compare(tool, folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    equal = total = refused = 0

    def check(what, ours, theirs):
        nonlocal equal, total
        total += 1
        equal += ours == theirs
        if ours != theirs:
            print(f"{folder}: {what} differ:\n  weft          {ours!r}\n  transformers  {theirs!r}")

    for number, pairs in enumerate(CONVERSATIONS):
        talk = [{"role": role, "content": content} for role, content in pairs]
        if "has no token for the character" in weft(tool, "tokenize", folder, talk).get("error", ""):
            refused += 1  # a vocabulary of characters: weft names the one that is missing, tokenizers drops it
            continue
        for prompt in (True, False):
            ours = weft(tool, "tokenize", folder, talk, *([] if prompt else ["--no-generation-prompt"]))
            check(f"texts of {number}", ours.get("text", ours), tokenizer.apply_chat_template(talk, tokenize=False, add_generation_prompt=prompt))
            theirs = tokenizer.apply_chat_template(talk, tokenize=True, add_generation_prompt=prompt, return_dict=True, return_assistant_tokens_mask=True)
            check(f"ids of {number}", ours.get("ids"), list(theirs["input_ids"]))
            if ours.get("generated") is not None:
                check(f"masks of {number}", ours["generated"], list(theirs["assistant_masks"]))
        if talk[-1]["role"] != "user":
            continue
        ids = tokenizer.apply_chat_template(talk, add_generation_prompt=True, return_tensors="pt", return_dict=True)["input_ids"]
        new = max(1, min(24, model.config.max_position_embeddings - ids.shape[1]))
        theirs = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, do_sample=False, pad_token_id=0)[0, ids.shape[1]:].tolist()
        check(f"answers to {number}", weft(tool, "generate", folder, talk, "--max-tokens", str(new), "--dtype", "f32", "--temperature", "0").get("ids"), theirs)
    print(f"{folder}: {equal} of {total} equal (transformers {transformers.__version__})" + f", {refused} conversations refused" * bool(refused))
    return equal == total


if __name__ == "__main__":
    sys.exit(not all([compare(sys.argv[1], folder) for folder in sys.argv[2:]]))
