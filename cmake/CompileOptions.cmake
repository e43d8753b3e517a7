# Flags shared by all targets. thinwire_warnings is linked privately and never exported.
add_library(thinwire_warnings INTERFACE)
set(warnings -Wall -Wextra -Wshadow -Wnon-virtual-dtor)
if(THINWIRE_WERROR)
  list(APPEND warnings -Werror)
endif()
target_compile_options(thinwire_warnings INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${warnings}>")

# Not -march=native: GCC 12 then tunes for CPUs it does not know and Eigen loses a fifth of its speed.
set(THINWIRE_ARCH_FLAGS "")
if(THINWIRE_V3 AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(THINWIRE_ARCH_FLAGS -march=x86-64-v3)
  add_compile_definitions(THINWIRE_NEEDS_V3=1)
endif()

if(THINWIRE_SANITIZE)
  add_compile_options(-fsanitize=${THINWIRE_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${THINWIRE_SANITIZE})
endif()
if(THINWIRE_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
endif()
