# The Metal backend: on macOS over the system's framework; elsewhere over the simulator, which compiles the same kernel sources with clang-19
# at run time.
set(WEFT_METAL_SIM AUTO CACHE STRING "The Metal backend on a simulator: AUTO (if clang++-19 is found), ON or OFF")
set_property(CACHE WEFT_METAL_SIM PROPERTY STRINGS AUTO ON OFF)

set(WEFT_HAS_METAL OFF)
set(WEFT_METAL_SIM_RUNS OFF CACHE INTERNAL "The simulator is part of the build")
if(APPLE)
  enable_language(OBJCXX)
  set(WEFT_HAS_METAL ON)
  set(WEFT_METAL_LIBS " -framework Metal -framework Foundation -framework CoreGraphics")  # for pkg-config
  message(STATUS "Metal backend: the system's framework")
elseif(WEFT_METAL_SIM)
  find_program(WEFT_METAL_CLANG NAMES clang++-19 HINTS /usr/lib/llvm-19/bin)
  if(WEFT_METAL_CLANG)
    set(WEFT_HAS_METAL ON)
    message(STATUS "Metal backend: simulated (${WEFT_METAL_CLANG})")
  elseif(WEFT_METAL_SIM STREQUAL AUTO)
    message(STATUS "Metal backend: not built (no clang++-19 for the simulator)")
  else()
    message(FATAL_ERROR "WEFT_METAL_SIM=ON needs clang++-19")
  endif()
endif()

# Kernel sources become string constants of the library, with the headers they include; embed.cmake follows those.
function(weft_embed_kernels target)
  get_property(files GLOBAL PROPERTY WEFT_METAL_FILES)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/metal_kernel_files.cpp)
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_kernels.cmake)
  list(TRANSFORM files PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE paths)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} "-DROOT=${PROJECT_SOURCE_DIR}" "-DFILES=${files}" -DOUTPUT=${output} -DDEPFILE=${output}.d -P ${script}
    DEPENDS ${paths} ${script} DEPFILE ${output}.d VERBATIM COMMENT "Embedding the Metal kernels")
  target_sources(${target} PRIVATE ${output})
endfunction()

# The whole backend except the ops' kernels (weft_add_op adds those).
function(weft_add_metal_backend target)
  target_sources(${target} PRIVATE
    tile/metal/launch.cpp
    tile/metal/pipelines.cpp
    tile/metal/runtime.cpp
    tile/metal/source.cpp
    backends/metal/metal_device.cpp
    backends/metal/planned_gpu.cpp
    backends/metal/table.cpp)
  set_property(SOURCE backends/open.cpp APPEND PROPERTY COMPILE_DEFINITIONS WEFT_HAS_METAL)  # the only file that lists backends
  if(APPLE)
    set_property(SOURCE backends/open.cpp APPEND PROPERTY COMPILE_DEFINITIONS WEFT_METAL_APPLE)
    target_sources(${target} PRIVATE backends/metal/apple/apple_gpu.mm)
    set_source_files_properties(backends/metal/apple/apple_gpu.mm PROPERTIES COMPILE_OPTIONS -fobjc-arc)
    # CoreGraphics: without it a command-line program gets no default device.
    target_link_libraries(${target} PRIVATE "-framework Metal" "-framework Foundation" "-framework CoreGraphics")
  elseif(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/backends/metal/sim/sources.cmake)
    set_property(SOURCE backends/open.cpp APPEND PROPERTY COMPILE_DEFINITIONS WEFT_METAL_SIM)
    include(backends/metal/sim/sources.cmake)
    weft_add_metal_sim(${target})
    set(WEFT_METAL_SIM_RUNS ON CACHE INTERNAL "The simulator is part of the build")
  endif()
endfunction()
