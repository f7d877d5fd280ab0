"""A CUDA compile fails if ptxas does not compile wgmma or setmaxnreg as written, and passes otherwise. ptxas_notes.py TOOL SOURCE_DIR"""
import os
import shutil
import subprocess
import sys
import tempfile

source = sys.argv[2]
nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
if not nvcc:
    print("no nvcc: nothing to compile")
    sys.exit(77)

# A wgmma whose accumulator is used while it is in flight: ptxas inserts a wait (C7517).
PRODUCT = """
#include "weft/tile/cuda/wgmma.cuh"
namespace weft::cuda {
__global__ void __launch_bounds__(128, 1) multiply_in_flight(float* out, uint64_t a, uint64_t b, int n) {
#if WEFT_HAS_WGMMA
  float sum[32] = {};
  for (int i = 0; i < n; ++i) {
    pin(sum);
    wgmma_begin();
    multiply(sum, a, b, 1);
    wgmma_commit();
    USED
    wgmma_wait<0>();
    pin(sum);
  }
  for (int i = 0; i < 32; ++i) out[threadIdx.x * 32 + i] = sum[i];
#endif
}
}
"""
# Without __launch_bounds__ the register count at entry is unknown (C7508).
REGISTERS = """
__global__ void BOUNDS share_registers(float* out) {
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    out[threadIdx.x] = 1;
  }
}
"""


def compile_text(folder, text):
    path, made = os.path.join(folder, "kernel.cu"), os.path.join(folder, "kernel.o")
    with open(path, "w") as out:
        out.write(text)
    command = ["sh", os.path.join(source, "cmake", "cuda_compile.sh"), nvcc, "-std=c++20", "--expt-relaxed-constexpr", "-I", source,
               "-gencode=arch=compute_90a,code=sm_90a", "-c", path, "-o", made]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    there = os.path.exists(made)
    if there:
        os.remove(made)
    return result.returncode, there, result.stdout


def expect(folder, name, text, note):
    status, there, output = compile_text(folder, text)
    assert (status != 0) == bool(note), f"{name}: exit code {status}\n{output}"
    assert there == (not note), f"{name}: object {'left behind' if there else 'missing'}\n{output}"
    assert not note or note in output, f"{name}: expected {note}\n{output}"


with tempfile.TemporaryDirectory() as folder:
    expect(folder, "a wgmma with its wait", PRODUCT.replace("USED", ""), None)
    expect(folder, "an accumulator used in flight", PRODUCT.replace("USED", "sum[0] += 1;"), "(C7517)")
    expect(folder, "registers known at entry", REGISTERS.replace("BOUNDS", "__launch_bounds__(384, 1)"), None)
    expect(folder, "registers unknown at entry", REGISTERS.replace("BOUNDS", ""), "(C7508)")
    expect(folder, "a source that does not compile", "nonsense", "error")
print("ptxas notes fail the build")
