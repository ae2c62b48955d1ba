# Faults that a thread sanitizer must report: executor_tests again, with a release in group.cc that is none. Included by
# CMakeLists.txt here with -DAUTOTUNE_SANITIZE=thread. The faulty file is made of group.cc, so no line of it is for tests.
set(executor ${CMAKE_CURRENT_SOURCE_DIR}/../group.cc)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${executor})

function(add_planted name released)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/planted_${name}.cc)
  file(READ ${executor} text)
  string(REPLACE "${released}, std::memory_order_release)" "${released}, std::memory_order_relaxed)" planted "${text}")
  if(planted STREQUAL text)
    message(FATAL_ERROR "${executor} does not release by ${released}, ...) any more: plant the fault where it does")
  endif()
  file(CONFIGURE OUTPUT ${file} CONTENT "${planted}" @ONLY)
  # Its own group.cc is linked first, so the library's is not taken.
  add_executable(planted_${name} $<TARGET_OBJECTS:executor_tests> ${file})
  target_link_libraries(planted_${name} PRIVATE autotune_executor)
  target_link_options(planted_${name} PRIVATE -Wl,--wrap=mmap,--wrap=munmap)
  add_test(NAME planted_${name} COMMAND planted_${name} ${programs} threads 1 300)
  set_tests_properties(planted_${name} PROPERTIES
    FIXTURES_REQUIRED programs TIMEOUT 600 ENVIRONMENT TSAN_OPTIONS=halt_on_error=1
    PASS_REGULAR_EXPRESSION "WARNING: ThreadSanitizer: data race")
endfunction()

add_planted(message "header.word.store(wave.word")
add_planted(clock "line.clock.store(start + w + 1")
