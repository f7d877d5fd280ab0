# weft_add_op(rms_norm): everything in weft/ops/rms_norm/ goes where it belongs. The kernels and the contract into the
# library, the header among the installed ones, the spec into the list that `weft check` runs. An op that is COMPOSED of
# others has no kernels of its own: weft_add_op(muon COMPOSED). Metal kernels and launchers are metal.metal and metal.cpp, and
# whatever further files follow METAL: weft_add_op(causal_attention METAL forward.metal backward.metal).
function(weft_add_op op)
  cmake_parse_arguments(OP "COMPOSED" "" "METAL" ${ARGN})
  set(folder ${CMAKE_CURRENT_SOURCE_DIR}/ops/${op})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder})  # reconfigure when a file is added
  target_sources(weft PRIVATE ${folder}/${op}.cpp)
  target_sources(weft PUBLIC FILE_SET HEADERS FILES ${folder}/${op}.h)
  if(NOT OP_COMPOSED)
    target_sources(weft PRIVATE ${folder}/cpu.cpp)
    weft_simd_sources(${folder}/cpu.cpp)
    if(WEFT_HAS_CUDA)
      foreach(kernels IN ITEMS cuda.cu cuda.cpp)
        if(EXISTS ${folder}/${kernels})
          target_sources(weft PRIVATE ${folder}/${kernels})
        endif()
      endforeach()
    endif()
    if(WEFT_HAS_METAL)
      foreach(kernels IN ITEMS metal.cpp metal.metal ${OP_METAL})
        if(EXISTS ${folder}/${kernels} AND kernels MATCHES "\\.metal$")
          set_property(GLOBAL APPEND PROPERTY WEFT_METAL_FILES weft/ops/${op}/${kernels})
        elseif(EXISTS ${folder}/${kernels})
          target_sources(weft PRIVATE ${folder}/${kernels})
        endif()
      endforeach()
    endif()
  endif()
  if(WEFT_SPECS)
    target_sources(weft_specs PRIVATE ${folder}/spec.cpp)
  endif()
  set_property(GLOBAL APPEND PROPERTY WEFT_OPS ${op})
endfunction()

# Writes the function that calls every op's add_specs_<op>.
function(weft_write_spec_list)
  get_property(ops GLOBAL PROPERTY WEFT_OPS)
  set(declarations "")
  set(calls "")
  foreach(op IN LISTS ops)
    string(APPEND declarations "void add_specs_${op}(Registry& registry);\n")
    string(APPEND calls "  add_specs_${op}(registry);\n")
  endforeach()
  file(CONFIGURE OUTPUT all_specs.cpp @ONLY CONTENT [[
// Written by CMake from the calls of weft_add_op.
#include "weft/spec/registry.h"

namespace weft::spec {

@declarations@
void add_all_specs(Registry& registry) {
@calls@}

}  // namespace weft::spec
]])
  target_sources(weft_specs PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/all_specs.cpp)
endfunction()
