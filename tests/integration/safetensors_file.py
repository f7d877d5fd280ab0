"""Changes to a safetensors file of f32 tensors."""
import json
import struct


def change_tensor(path, name, change):
    """Applies `change` to the floats of a tensor."""
    data = bytearray(path.read_bytes())
    length = struct.unpack("<Q", data[:8])[0]
    entry = json.loads(data[8:8 + length])[name]
    first, end = (8 + length + offset for offset in entry["data_offsets"])
    values = change(list(struct.unpack(f"<{(end - first) // 4}f", data[first:end])), entry["shape"])
    data[first:end] = struct.pack(f"<{len(values)}f", *values)
    path.write_bytes(data)


def forbid_token(model, token):
    """Makes the logit of a token of a GPT-2 folder minus infinity and all others finite: a step that reads the token has an infinite loss."""
    weights, vocabulary = model / "model.safetensors", json.loads((model / "tokenizer.json").read_text())["model"]["vocab"]
    row = vocabulary[token]
    change_tensor(weights, "transformer.ln_f.weight", lambda v, _: [0.0] * len(v))
    change_tensor(weights, "transformer.ln_f.bias", lambda v, _: [1.0] * len(v))
    change_tensor(weights, "transformer.wte.weight", lambda v, s: v[:row * s[1]] + [-1e38] * s[1] + v[(row + 1) * s[1]:])
