# Compile options of every target of this project. There are no global flags: a consumer keeps its own settings.
function(weft_target_defaults target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  # FMAs are explicit (fma): contraction must not depend on the compiler or the vector width.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -ffp-contract=off -fno-math-errno>)
  if(WEFT_CHECKED)
    target_compile_definitions(${target} PRIVATE WEFT_CHECKED)
  endif()
  if(WEFT_SANITIZE)
    # object-size finds what AddressSanitizer finds, and takes a quarter of the time to compile.
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${WEFT_SANITIZE} -fno-sanitize=object-size -fno-sanitize-recover=all -fno-omit-frame-pointer -g1>)
    target_link_options(${target} PUBLIC -fsanitize=${WEFT_SANITIZE})
  endif()
endfunction()

# Headers that most sources of a target include. Kernels are excluded: they have their own flags.
function(weft_precompile target)
  if(WEFT_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()

# Sources that Highway compiles once per instruction set. On x86-64 the minimum is AVX2 with FMA (x86-64-v3): below it there is no fused
# multiply-add and results would differ. AVX-512 is added by Highway and chosen at run time. The mask excludes targets that would double the
# build for no gain here (AVX3_DL, ZEN4, SPR, SVE). WEFT_NATIVE: only one target, the best of the build machine, with the same bits as the
# others; optimised whatever the flags of the rest.
function(weft_simd_sources)
  set(flags -Wno-psabi)
  set(definitions HWY_DISABLED_TARGETS=0x0F0000D0)
  if(WEFT_NATIVE AND NOT APPLE)
    list(APPEND flags -march=native -O3)
    set(definitions HWY_DISABLED_TARGETS=0x0F0058D0 HWY_COMPILE_ONLY_STATIC)  # no SSE either: less than AVX2 does not compile
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
    list(APPEND flags -march=x86-64-v3 -maes -mpclmul)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64" AND NOT APPLE)
    list(APPEND flags -march=armv8-a+crypto)  # Highway's NEON target includes AES
  endif()
  set_source_files_properties(${ARGN} PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${flags}" COMPILE_DEFINITIONS "${definitions}")
endfunction()
