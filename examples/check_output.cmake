# cmake -DEXPECT=REGEX -DCOMMAND=PROGRAM;ARGUMENTS -P check_output.cmake: the program must succeed and print what REGEX matches.
execute_process(COMMAND ${COMMAND} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE errors)
message("${output}${errors}")
if(NOT code EQUAL 0)
  message(FATAL_ERROR "the example ended with ${code}")
endif()
if(NOT output MATCHES "${EXPECT}")
  message(FATAL_ERROR "the example did not print ${EXPECT}")
endif()
