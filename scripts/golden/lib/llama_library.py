"""llama.cpp's C interface: the functions that the shared object of the package xllamacpp exports, by ctypes.

The structs are those of llama.h in xllamacpp 2026.10.11549, up to the last member that is used here; the rest is room.
"""
import ctypes
import os
import pathlib
import sys

import numpy as np

sys.setdlopenflags(os.RTLD_GLOBAL | os.RTLD_NOW)
import xllamacpp  # noqa: E402

F32, F16 = 0, 1  # enum ggml_type


class ModelParams(ctypes.Structure):
    _fields_ = [("devices", ctypes.c_void_p), ("overrides", ctypes.c_void_p), ("n_gpu_layers", ctypes.c_int32), ("modes", ctypes.c_int32 * 3),
                ("main_gpu", ctypes.c_int32), ("others", ctypes.c_void_p * 4), ("vocab_only", ctypes.c_bool), ("check_tensors", ctypes.c_bool),
                ("use_extra_bufts", ctypes.c_bool), ("room", ctypes.c_char * 125)]


class ContextParams(ctypes.Structure):
    _fields_ = [("n_ctx", ctypes.c_uint32), ("n_batch", ctypes.c_uint32), ("n_ubatch", ctypes.c_uint32), ("counts", ctypes.c_uint32 * 4),
                ("n_threads", ctypes.c_int32), ("n_threads_batch", ctypes.c_int32), ("types", ctypes.c_int32 * 4), ("flash_attn_type", ctypes.c_int32),
                ("rope", ctypes.c_float * 6), ("yarn_orig_ctx", ctypes.c_uint32), ("defrag_thold", ctypes.c_float), ("callback", ctypes.c_void_p * 2),
                ("type_k", ctypes.c_int32), ("type_v", ctypes.c_int32), ("room", ctypes.c_char * 192)]


class Batch(ctypes.Structure):
    _fields_ = [("n_tokens", ctypes.c_int32), ("token", ctypes.POINTER(ctypes.c_int32)), ("embd", ctypes.c_void_p), ("pos", ctypes.POINTER(ctypes.c_int32)),
                ("n_seq_id", ctypes.POINTER(ctypes.c_int32)), ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
                ("logits", ctypes.POINTER(ctypes.c_int8))]


_library = ctypes.CDLL(str(next(pathlib.Path(xllamacpp.__file__).parent.glob("xllamacpp*.so"))), mode=ctypes.RTLD_GLOBAL)


def _function(name, result, *arguments):
    function = getattr(_library, name)
    function.restype, function.argtypes = result, arguments
    return function


_pointer, _text, _int = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32
_model_params = _function("llama_model_default_params", ModelParams)
_context_params = _function("llama_context_default_params", ContextParams)
_load = _function("llama_model_load_from_file", _pointer, _text, ModelParams)
_free_model = _function("llama_model_free", None, _pointer)
_context = _function("llama_init_from_model", _pointer, _pointer, ContextParams)
_free_context = _function("llama_free", None, _pointer)
_batch = _function("llama_batch_init", Batch, _int, _int, _int)
_free_batch = _function("llama_batch_free", None, Batch)
_decode = _function("llama_decode", _int, _pointer, Batch)
_logits = _function("llama_get_logits", ctypes.POINTER(ctypes.c_float), _pointer)
_vocab = _function("llama_model_get_vocab", _pointer, _pointer)
_vocab_size = _function("llama_vocab_n_tokens", _int, _pointer)
_tokenize = _function("llama_tokenize", _int, _pointer, _text, _int, ctypes.POINTER(_int), _int, ctypes.c_bool, ctypes.c_bool)


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def _log(level, text, _):
    if level == 4:  # errors
        sys.stderr.write(text.decode(errors="replace"))


_function("llama_log_set", None, _pointer, _pointer)(ctypes.cast(_log, _pointer), None)
_function("llama_backend_init", None)()


def _loaded(path, vocab_only=False):
    params = _model_params()
    assert (params.n_gpu_layers, params.vocab_only, params.check_tensors, params.use_extra_bufts) == (-1, False, False, True), "llama.h has other structs"
    params.n_gpu_layers, params.vocab_only = 0, vocab_only
    model = _load(str(path).encode(), params)
    assert model, f"llama.cpp does not load {path}"
    return model


def logits(path, ids):
    """At every position, with keys and values of the cache in f32."""
    model, params = _loaded(path), _context_params()
    assert (params.type_k, params.type_v, params.n_batch) == (F16, F16, 2048), "llama.h has other structs"
    params.n_ctx = params.n_batch = params.n_ubatch = 64
    params.type_k = params.type_v = F32
    params.flash_attn_type = 0
    params.n_threads = params.n_threads_batch = 1
    context, batch = _context(model, params), _batch(len(ids), 0, 1)
    batch.n_tokens = len(ids)
    for i, token in enumerate(ids):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = int(token), i, 1, 1
        batch.seq_id[i][0] = 0
    assert _decode(context, batch) == 0
    result = np.ctypeslib.as_array(_logits(context), shape=(len(ids), _vocab_size(_vocab(model)))).copy()
    _free_batch(batch)
    _free_context(context)
    _free_model(model)
    return result


def tokenized(path, texts):
    model = _loaded(path, vocab_only=True)
    vocab, rows = _vocab(model), []
    for text in texts:
        raw = text.encode()
        buffer = (_int * (len(raw) + 8))()
        count = _tokenize(vocab, raw, len(raw), buffer, len(buffer), True, True)
        rows.append(list(buffer[:count]))
    _free_model(model)
    return rows
