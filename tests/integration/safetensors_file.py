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
