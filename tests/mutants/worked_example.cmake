# The op of CONTRIBUTING.md's "Add an op", built from the page's text and checked. New slots stand at the end of the table, so the
# library's objects stay as they are; the tables of the backends and the list of specs are compiled again and linked before them.
set(folder ${CMAKE_CURRENT_BINARY_DIR}/worked_example_source)
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  CONTRIBUTING.md weft/device/kernels.h weft/ops/ops.h tests/mutants/worked_example.py)
execute_process(COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/worked_example.py ${PROJECT_SOURCE_DIR} ${folder}
  OUTPUT_VARIABLE files OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
list(FILTER files INCLUDE REGEX "^weft/ops/[^/]+/.*\\.cpp$")
list(TRANSFORM files PREPEND ${folder}/)
list(GET files 0 first)
cmake_path(GET first PARENT_PATH op)
cmake_path(GET op FILENAME op)
get_property(ops GLOBAL PROPERTY WEFT_OPS)
weft_spec_list(${folder}/all_specs.cpp ${ops} ${op})

set(tables ${PROJECT_SOURCE_DIR}/weft/backends/cpu/table.cpp ${PROJECT_SOURCE_DIR}/weft/backends/counting/table.cpp)
foreach(backend IN ITEMS cuda metal)
  string(TOUPPER ${backend} upper)
  if(WEFT_HAS_${upper})
    list(APPEND tables ${PROJECT_SOURCE_DIR}/weft/backends/${backend}/table.cpp)
  endif()
endforeach()
add_executable(worked_example ${files} ${tables} ${folder}/all_specs.cpp $<TARGET_OBJECTS:weft_cli>)
weft_target_defaults(worked_example)
weft_simd_sources(${folder}/weft/ops/${op}/cpu.cpp)
target_include_directories(worked_example BEFORE PRIVATE ${folder})
target_include_directories(worked_example PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(worked_example PRIVATE weft weft_specs weft_bench weft_cli_libraries hwy::hwy CLI11::CLI11 nlohmann_json::nlohmann_json)
add_test(NAME worked_example COMMAND worked_example check --op ${op})
set_tests_properties(worked_example PROPERTIES LABELS "cpu;mutant")
if(WEFT_METAL_SIM_RUNS)  # no kernel there: the slot has the reason
  add_test(NAME worked_example.unsupported COMMAND worked_example check --op ${op} --device metal-sim --verbose)
  set_tests_properties(worked_example.unsupported PROPERTIES LABELS "metal;mutant" PASS_REGULAR_EXPRESSION "not written yet")
endif()
