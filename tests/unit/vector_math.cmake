# The vector functions of weft/tile/cpu against the C library, per instruction set.
add_executable(vector_math_test unit/vector_math_test.cpp)
weft_target_defaults(vector_math_test)
target_link_libraries(vector_math_test PRIVATE weft hwy::hwy GTest::gtest_main)
weft_simd_sources(unit/vector_math_test.cpp)
gtest_discover_tests(vector_math_test PROPERTIES LABELS unit)
