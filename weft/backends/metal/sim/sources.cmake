# The Metal simulator (simulator.h): weft_add_metal_sim(target) adds its sources to a target of this project.
find_program(WEFT_METAL_SIM_CLANG NAMES clang++-19 DOC "The compiler of the Metal simulator: clang 19, for its _Float16 and __bf16")

set(WEFT_METAL_SIM_DIR ${CMAKE_CURRENT_LIST_DIR})
set(WEFT_METAL_SIM_SHIM abi.h atomic.h checks.h glue.h integer.h limits.h macros.h math.h matrix.h simd.h stdlib.h types.h vector.h)

function(weft_add_metal_sim target)
  set(sources compiler.cpp fiber.cpp threadgroup.cpp threadgroup_memory.cpp module.cpp process.cpp rewriter.cpp runtime.cpp shadow.cpp signature.cpp simulator.cpp staging.cpp unordered_dispatches.cpp tokens.cpp workers.cpp)
  list(TRANSFORM sources PREPEND ${WEFT_METAL_SIM_DIR}/)
  set(shim ${WEFT_METAL_SIM_SHIM})
  list(TRANSFORM shim PREPEND ${WEFT_METAL_SIM_DIR}/shim/)
  set(rewriter ${WEFT_METAL_SIM_DIR}/compiler.cpp ${WEFT_METAL_SIM_DIR}/rewriter.cpp ${WEFT_METAL_SIM_DIR}/signature.cpp ${WEFT_METAL_SIM_DIR}/tokens.cpp)
  set(embedded ${CMAKE_CURRENT_BINARY_DIR}/metal_sim_embedded.cpp)
  add_custom_command(OUTPUT ${embedded}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${embedded} "-DSHIM=${shim}" "-DREWRITER=${rewriter}" -P ${WEFT_METAL_SIM_DIR}/embed.cmake
    DEPENDS ${shim} ${rewriter} ${WEFT_METAL_SIM_DIR}/embed.cmake VERBATIM)
  target_sources(${target} PRIVATE ${sources} ${embedded})
  set_source_files_properties(${embedded} PROPERTIES INCLUDE_DIRECTORIES ${PROJECT_SOURCE_DIR})
  set_source_files_properties(${WEFT_METAL_SIM_DIR}/compiler.cpp PROPERTIES COMPILE_DEFINITIONS WEFT_METAL_SIM_CLANG="${WEFT_METAL_SIM_CLANG}")
  # Code that runs on a kernel's stack: a sanitizer would report the stack switch as an error.
  foreach(source IN ITEMS fiber.cpp threadgroup.cpp threadgroup_memory.cpp runtime.cpp shadow.cpp)
    set_source_files_properties(${WEFT_METAL_SIM_DIR}/${source} PROPERTIES COMPILE_OPTIONS -fno-sanitize=all)
  endforeach()
  target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
endfunction()
