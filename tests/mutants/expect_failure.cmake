# A mutant must fail by a wrong result (exit code 1 and a failed case, or bits that differ), not by crashing or refusing to run.
execute_process(COMMAND ${COMMAND} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT code EQUAL 1 OR NOT output MATCHES "FAILED|DIFFERENT")
  message(FATAL_ERROR "the mutant was not caught (exit ${code}):\n${output}")
endif()
string(REGEX MATCHALL "(FAILED|DIFFERENT)[^\n]*" failures "${output}")
list(LENGTH failures count)
list(GET failures 0 first)
message(STATUS "caught by ${count} cases, the first: ${first}")
