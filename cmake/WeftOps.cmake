# weft_add_op(rms_norm): everything in weft/ops/rms_norm/ goes where it belongs. The contract and the kernels go into the
# library, the header among the installed ones, the specs (spec.cpp, *_spec.cpp) into the list that `weft check` runs. A backend's
# kernels are one file (cpu.cpp; cuda.cu or cuda.cpp; metal.cpp with metal.metal) or all files of the folder of its name, where
# the launchers are <op>.cpp or <op>.cu: weft/ops/matmul/cpu/matmul.cpp. An op COMPOSED of others has no kernels of its own.
function(weft_add_op op)
  cmake_parse_arguments(OP "COMPOSED;GPU_ONLY" "" "" ${ARGN})
  set(folder ${CMAKE_CURRENT_SOURCE_DIR}/ops/${op})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder})  # reconfigure when a file is added
  target_sources(weft PRIVATE ${folder}/${op}.cpp)
  target_sources(weft PUBLIC FILE_SET HEADERS FILES ${folder}/${op}.h)
  if(NOT OP_COMPOSED)
    file(GLOB cpu CONFIGURE_DEPENDS ${folder}/cpu.cpp ${folder}/cpu/*.cpp)
    if(NOT cpu AND NOT OP_GPU_ONLY)
      message(FATAL_ERROR "weft_add_op(${op}): neither ${folder}/cpu.cpp nor ${folder}/cpu/*.cpp exists")
    endif()
    if(cpu)
      target_sources(weft PRIVATE ${cpu})
      weft_simd_sources(${cpu})
    endif()
    if(WEFT_HAS_CUDA)
      file(GLOB cuda CONFIGURE_DEPENDS ${folder}/cuda.cu ${folder}/cuda.cpp ${folder}/cuda/*.cu ${folder}/cuda/*.cpp)
      target_sources(weft PRIVATE ${cuda})
    endif()
    if(WEFT_HAS_METAL)
      file(GLOB metal CONFIGURE_DEPENDS ${folder}/metal.cpp ${folder}/metal/*.cpp)
      target_sources(weft PRIVATE ${metal})
      file(GLOB kernels CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${folder}/metal.metal ${folder}/metal/*.metal)
      set_property(GLOBAL APPEND PROPERTY WEFT_METAL_FILES ${kernels})
    endif()
  endif()
  if(WEFT_SPECS)
    file(GLOB specs CONFIGURE_DEPENDS ${folder}/spec.cpp ${folder}/*_spec.cpp)
    target_sources(weft_specs PRIVATE ${specs})
  endif()
  set_property(GLOBAL APPEND PROPERTY WEFT_OPS ${op})
endfunction()

# weft_spec_list(file op...): writes the function that calls every op's add_specs_<op>.
function(weft_spec_list file)
  set(declarations "")
  set(calls "")
  foreach(op IN LISTS ARGN)
    string(APPEND declarations "void add_specs_${op}(Registry& registry);\n")
    string(APPEND calls "  add_specs_${op}(registry);\n")
  endforeach()
  file(CONFIGURE OUTPUT ${file} @ONLY CONTENT [[
// Written by CMake from the calls of weft_add_op.
#include "weft/spec/registry.h"

namespace weft::spec {

@declarations@
void add_all_specs(Registry& registry) {
@calls@}

}  // namespace weft::spec
]])
endfunction()

function(weft_write_spec_list)
  get_property(ops GLOBAL PROPERTY WEFT_OPS)
  weft_spec_list(${CMAKE_CURRENT_BINARY_DIR}/all_specs.cpp ${ops})
  target_sources(weft_specs PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/all_specs.cpp)
endfunction()
