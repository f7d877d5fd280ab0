# The CUDA backend: built if a CUDA 13 compiler is found or WEFT_CUDA=ON. It needs no GPU to build, and the tool starts on a machine without
# a driver.
set(WEFT_CUDA AUTO CACHE STRING "The CUDA backend: AUTO (if there is a compiler), ON or OFF")
set_property(CACHE WEFT_CUDA PROPERTY STRINGS AUTO ON OFF)
# One architecture by default: each adds minutes to the build. For a release: "-DWEFT_CUDA_ARCHITECTURES=80;90a-real"
# (80 includes PTX, which the driver compiles for newer GPUs).
set(WEFT_CUDA_ARCHITECTURES 90a-real CACHE STRING "GPU architectures to compile for")

set(WEFT_HAS_CUDA OFF)
if(WEFT_CUDA)
  if(WEFT_CUDA STREQUAL AUTO)
    find_package(CUDAToolkit 13 QUIET)
    find_program(WEFT_NVCC nvcc HINTS ${CUDAToolkit_BIN_DIR} /usr/local/cuda/bin)
  else()
    find_package(CUDAToolkit 13 REQUIRED)
    find_program(WEFT_NVCC nvcc HINTS ${CUDAToolkit_BIN_DIR} /usr/local/cuda/bin REQUIRED)
  endif()
  if(CUDAToolkit_FOUND AND WEFT_NVCC)
    set(CMAKE_CUDA_COMPILER ${WEFT_NVCC})
    set(CMAKE_CUDA_ARCHITECTURES ${WEFT_CUDA_ARCHITECTURES})
    enable_language(CUDA)
    set(WEFT_HAS_CUDA ON)
    # For pkg-config. The toolkit is not part of the package: --define-variable=cuda_libdir=DIR gives another location.
    set(WEFT_CUDA_VARIABLES "cuda_libdir=${CUDAToolkit_LIBRARY_DIR}\n")
    set(WEFT_CUDA_LIBS " -L\${cuda_libdir} -Wl,-rpath,\${cuda_libdir} -lcublasLt -lnvrtc -lcudart_static -lrt -ldl -lpthread")
    message(STATUS "CUDA backend: ${WEFT_NVCC}, architectures ${WEFT_CUDA_ARCHITECTURES}")
  else()
    message(STATUS "CUDA backend: not built (no CUDA 13 compiler found)")
  endif()
endif()

# How a target compiles its .cu files.
function(weft_cuda_options target)
  # CMake 3.25 supports CUDA 13 only up to C++17 and would silently use that. FMAs are explicit, as on the CPU.
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 --expt-relaxed-constexpr --extended-lambda -fmad=false -Xcompiler=-Wall>)
  set_target_properties(${target} PROPERTIES CUDA_SEPARABLE_COMPILATION OFF CUDA_RUNTIME_LIBRARY Static)
  # A ptxas note about wgmma or setmaxnreg fails the build.
  set_property(TARGET ${target} PROPERTY CUDA_COMPILER_LAUNCHER sh ${PROJECT_SOURCE_DIR}/cmake/cuda_compile.sh ${CMAKE_CUDA_COMPILER_LAUNCHER})
endfunction()

# The whole backend except the ops' kernels (weft_add_op adds those).
function(weft_add_cuda_backend target)
  target_sources(${target} PRIVATE
    tile/cuda/blas.cpp
    backends/cuda/cuda_device.cpp
    tile/cuda/runtime.cpp
    tile/cuda/graph.cpp
    tile/cuda/modules.cpp
    tile/cuda/order_check.cu
    backends/cuda/table.cpp)
  set_source_files_properties(backends/open.cpp PROPERTIES COMPILE_DEFINITIONS WEFT_HAS_CUDA)  # the only file that lists backends
  target_link_libraries(${target} PRIVATE CUDA::cudart_static CUDA::cublasLt CUDA::nvrtc)
  weft_cuda_options(${target})
endfunction()
