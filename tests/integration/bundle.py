"""scripts/bundle: the folder is self-contained, runs from another path with an empty environment, and stays small."""
import os
import pathlib
import subprocess
import sys
import tempfile

tool, source = sys.argv[1], pathlib.Path(sys.argv[2])
OF_THE_MACHINE = ("linux-vdso", "ld-linux", "libc.", "libm.", "libdl.", "librt.", "libpthread.", "libcuda", "libcublas", "libnvrtc")


def run(*args, code=0, **environment):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True, env=environment, cwd="/")
    assert done.returncode == code, f"{args}: exit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


with tempfile.TemporaryDirectory() as temporary:
    made = pathlib.Path(temporary) / "made here"
    subprocess.run([source / "scripts/bundle", made, tool], check=True, stdout=subprocess.DEVNULL)
    assert "not empty" in run(source / "scripts/bundle", made, tool, code=1, PATH=os.environ["PATH"])
    bundle = pathlib.Path(temporary) / "carried there"
    made.rename(bundle)
    assert sum(f.stat().st_size for f in bundle.rglob("*") if f.is_file()) < 64 << 20

    # All libraries come from the folder, except the C library's and CUDA's.
    for line in run(bundle / "bin/weft", LD_TRACE_LOADED_OBJECTS="1", LD_LIBRARY_PATH=str(bundle / "lib")).splitlines():
        name = line.split()[0].rsplit("/", 1)[-1]
        assert name.startswith(OF_THE_MACHINE) or str(bundle / "lib") in line, line

    assert "cpu" in run(bundle / "weft", "devices")
    (pathlib.Path(temporary) / "link").symlink_to(bundle / "weft")
    assert "0 failed" in run(pathlib.Path(temporary) / "link", "check", "--op", "rms_norm", "--golden", bundle / "golden/ops")
    assert "rms_norm" in run(bundle / "weft", "bench", "--op", "rms_norm", "--dtype", "bf16", "--threads", 1)
    assert "tokens/s" in run(bundle / "weft", "generate", bundle / "golden/models/llama", "Hello", "--max-tokens", 3)
