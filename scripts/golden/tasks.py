# needs: lm_eval==0.4.13 transformers==5.22.2 torch==2.15.0 accelerate
"""Golden results of tasks, made by lm-eval on a tiny model that weft trained.

    scripts/make-golden tasks build/release/cli/weft [--keep-model]

tests/golden/tasks/*.jsonl are items of our own in the published forms. This trains tests/golden/tasks/model (a Llama of 100,000
weights on a few hundred lines of ours, with the tokenizer of tests/golden/models/llama and a BOS token), runs lm-eval's own tasks on those
files and writes expected.json: for each run the options of `weft eval`, every item's log-probabilities or text, and the scores.
tests/integration/eval_tasks.py compares `weft eval` with it.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path[0] = str(pathlib.Path(__file__).resolve().parent / "lib")  # instead of this folder, whose tokenizers.py would hide the package
import lm_eval  # noqa: E402
import lm_eval.tasks  # noqa: E402
import yaml  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "golden" / "tasks"
MODEL = FOLDER / "model"
THEIRS = pathlib.Path(lm_eval.__file__).parent / "tasks"


def corpus():
    """Lines in the manner of the tasks, so that the model is right now and then."""
    read = lambda name: [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]
    texts = [f"Question: {i['question']}\nAnswer: {i['choices']['text'][0]}" for i in read("arc.jsonl")]
    texts += [f"{i['prompt']} {i['target'] if isinstance(i['target'], str) else i['target'][0]}" for i in read("plain_targets.jsonl")[:5]]
    texts += [f"Question: {i['goal']}\nAnswer: {i['sol1']}" for i in read("piqa.jsonl")]
    texts += [f"{i['activity_label']}: {i['ctx']} {i['endings'][int(i['label'])]}" for i in read("hellaswag.jsonl")[:6]]
    texts += [f"The harvest of {1800 + i} was {'good' if i % 3 else 'poor'}." for i in range(30)]
    return texts


def make_model(weft):
    with tempfile.TemporaryDirectory() as name:
        at = pathlib.Path(name)
        tokenizer = json.loads((ROOT / "tests/golden/models/llama/tokenizer.json").read_text())
        tokenizer["post_processor"] = {
            "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}}
        (at / "tokenizer").mkdir()
        (at / "tokenizer/tokenizer.json").write_text(json.dumps(tokenizer))
        (at / "tokenizer/tokenizer_config.json").write_text(json.dumps(
            {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<|pad|>", "tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}))
        (at / "lines.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in corpus()))
        sizes = ["--layers", "2", "--width", "48", "--heads", "4", "--kv-heads", "2", "--ffn", "96", "--context", "160", "--sequence", "96"]
        subprocess.run([weft, "train", "--data", at / "lines.jsonl", "--tokenizer", at / "tokenizer", "--out", at / "run", *sizes, "--steps", "110",
                        "--batch", "8", "--learning-rate", "0.01", "--validation", "0", "--sample-tokens", "0"], check=True)
        shutil.rmtree(MODEL, ignore_errors=True)
        shutil.copytree(at / "run/model", MODEL)


# SQuAD's normalisation, F1 and exact match, as lm-eval's QASPER task has them.
SQUAD = """
from lm_eval.tasks.qasper.metrics import f1_abstractive, normalize_answer


def targets(doc):
    return doc["target"] if isinstance(doc["target"], list) else [doc["target"]]


def results(doc, results):
    return {"exact_match": float(max(normalize_answer(results[0]) == normalize_answer(t) for t in targets(doc))),
            "f1": float(max(f1_abstractive([results[0]], [t]) for t in targets(doc)))}
"""


class Function(str):
    pass


yaml.SafeDumper.add_representer(Function, lambda dumper, value: dumper.represent_scalar("!function", str(value)))

ACCURACIES = [{"metric": metric, "aggregation": "mean", "higher_is_better": True} for metric in ("acc", "acc_norm", "acc_bytes")]
CHOICES = {"output_type": "multiple_choice", "doc_to_text": "{{prompt}}", "doc_to_choice": "{{choices}}", "doc_to_target": "{{answer}}", "metric_list": ACCURACIES}
# name: (lm-eval's task or settings, file, split that is evaluated, further splits, shots, options of weft eval)
RUNS = {
    "hellaswag": ("hellaswag/hellaswag.yaml", "hellaswag", "validation", {}, 0, []),
    "hellaswag_shots": ("hellaswag/hellaswag.yaml", "hellaswag", "validation", {"train": "hellaswag"}, 2, ["--shots-data", "hellaswag.jsonl"]),
    "arc": ("arc/arc_easy.yaml", "arc", "test", {}, 0, []),
    "arc_shots": ("arc/arc_easy.yaml", "arc", "test", {}, 3, []),
    "mmlu": ("mmlu/default/_default_template_yaml", "mmlu", "test", {}, 0, []),
    "mmlu_shots": ("mmlu/default/_default_template_yaml", "mmlu", "test", {"dev": "mmlu_dev"}, 2, ["--shots-data", "mmlu_dev.jsonl"]),
    "piqa": ("piqa/piqa.yaml", "piqa", "validation", {}, 0, []),
    "plain_choices": (CHOICES, "plain_choices", "test", {}, 0, []),
    "plain_targets": ({"output_type": "generate_until", "doc_to_text": "{{prompt}}", "doc_to_target": Function("squad.targets"),
                       "process_results": Function("squad.results"),
                       "generation_kwargs": {"until": ["\n\n", "Q:"], "do_sample": False, "max_gen_toks": 12},
                       "metric_list": [{"metric": m, "aggregation": "mean", "higher_is_better": True} for m in ("exact_match", "f1")]},
                      "plain_targets", "test", {}, 0, ["--stop", "\n\n", "--stop", "Q:", "--max-tokens", "12"]),
    "plain_texts": ({"output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "{{text}}",
                     "metric_list": [{"metric": m} for m in ("bits_per_byte", "byte_perplexity", "word_perplexity")]},
                    "plain_texts", "test", {}, 0, []),
}


SUBJECTS = ["small_sums", "village_life"]  # of mmlu.jsonl, in its order


def their_data(at, name, subject=None):
    """PIQA's labels go into its lines: the loader of JSON knows no second file. Targets are lists. `subject`: of MMLU, alone."""
    lines = [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    labels = FOLDER / f"{name}-labels.lst"
    if labels.exists():
        lines = [{**line, "label": int(label)} for line, label in zip(lines, labels.read_text().split())]
    for line in lines:
        if "target" in line and isinstance(line["target"], str):
            line["target"] = [line["target"]]
        if "label" in line:
            line["label"] = int(line["label"])
    if subject:
        lines = [line for line in lines if line["subject"] == subject]
    path = at / f"{name}{subject or ''}.data.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def write_task(at, name, subject=None):
    """Their task with our data: of MMLU one for each subject, as lm-eval has it."""
    task, file, split, others, *_ = RUNS[name]
    settings = {"include": str(THEIRS / task)} if isinstance(task, str) else {**task, "test_split": split}
    files = {split: their_data(at, file, subject), **{other: their_data(at, of, subject) for other, of in others.items()}}
    own = f"own_{name}{subject or ''}"
    settings.update({"task": own, "dataset_path": "json", "dataset_name": None, "dataset_kwargs": {"data_files": files}})
    if isinstance(task, str):
        settings["metric_list"] = ACCURACIES
        for use, of in (("training", "train"), ("validation", "validation"), ("test", "test"), ("fewshot", "dev")):
            settings[f"{use}_split"] = of if of in files else None
        if name == "arc_shots":  # an item is no example for itself
            settings["fewshot_split"] = "test"
    if subject:  # as _generate_configs.py of lm-eval writes it
        settings["description"] = f"The following are multiple choice questions (with answers) about {' '.join(subject.split('_'))}.\n\n"
    (at / f"{own}.yaml").write_text(yaml.safe_dump(settings))
    return own


def evaluated(own, name, model, manager):
    out = lm_eval.simple_evaluate(model=model, tasks=[own], num_fewshot=RUNS[name][4], task_manager=manager, log_samples=True, bootstrap_iters=0 if "texts" in name else 100)
    samples = sorted(out["samples"][own], key=lambda sample: sample["doc_id"])
    scores = {key.split(",")[0]: value for key, value in out["results"][own].items() if isinstance(value, float)}
    return samples, scores


def item_of(sample):
    resps = sample["filtered_resps"]
    if isinstance(resps[0], str):
        return {"generated": resps[0], "exact_match": sample["exact_match"], "f1": sample["f1"]}
    if isinstance(resps[0], (list, tuple)):
        return {"log_probabilities": [float(resp[0]) for resp in resps], **{key: sample[key] for key in ("acc", "acc_norm", "acc_bytes")}}
    return {"log_probability": float(resps[0])}


def main():
    weft = sys.argv[1]
    if "--keep-model" not in sys.argv:
        make_model(weft)
    from lm_eval.models.huggingface import HFLM

    model = HFLM(pretrained=str(MODEL), device="cpu", dtype="float32", batch_size=1)
    expected = {}
    with tempfile.TemporaryDirectory() as folder:
        at = pathlib.Path(folder)
        (at / "squad.py").write_text(SQUAD)
        tasks = {name: [write_task(at, name, subject) for subject in (SUBJECTS if "mmlu" in name else [None])] for name in RUNS}
        manager = lm_eval.tasks.TaskManager(include_path=str(at))
        for name, (_, file, _, _, shots, options) in RUNS.items():
            parts = [evaluated(own, name, model, manager) for own in tasks[name]]
            samples, scores = sum([part[0] for part in parts], []), parts[0][1]
            if len(parts) > 1:
                scores = {"acc": sum(sample["acc"] for sample in samples) / len(samples)}
            expected[name] = {"file": f"{file}.jsonl", "options": [*(["--shots", str(shots)] if shots else []), *options], "items": [item_of(s) for s in samples], "scores": scores}
    return expected


if __name__ == "__main__":
    result = main()
    text = ",\n".join(f'{json.dumps(run)}: {{"file": {json.dumps(of["file"])}, "options": {json.dumps(of["options"])}, "scores": {json.dumps(of["scores"])}, "items": [\n' +
                      ",\n".join(json.dumps(item, ensure_ascii=False) for item in of["items"]) + "]}" for run, of in result.items())
    (FOLDER / "expected.json").write_text("{\n" + text + "\n}\n", encoding="utf-8")
