# Faults that a thread sanitizer must report: executor_tests again, with a release in the executor that is none. Included
# by CMakeLists.txt here with -DAUTOTUNE_SANITIZE=thread. The faulty file is made of the executor's, so no line of that is
# for tests.
function(add_planted name source released)
  set(executor ${CMAKE_CURRENT_SOURCE_DIR}/../${source})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${executor})
  set(file ${CMAKE_CURRENT_BINARY_DIR}/planted_${name}.cc)
  file(READ ${executor} text)
  string(REPLACE "${released}, std::memory_order_release)" "${released}, std::memory_order_relaxed)" planted "${text}")
  if(planted STREQUAL text)
    message(FATAL_ERROR "${executor} does not release by ${released}, ...) any more: plant the fault where it does")
  endif()
  file(CONFIGURE OUTPUT ${file} CONTENT "${planted}" @ONLY)
  # Its own ${source} is linked first, so the library's is not taken.
  add_executable(planted_${name} $<TARGET_OBJECTS:executor_tests> ${file})
  target_link_libraries(planted_${name} PRIVATE autotune_executor)
  target_link_options(planted_${name} PRIVATE -Wl,--wrap=mmap,--wrap=munmap)
  add_test(NAME planted_${name} COMMAND planted_${name} ${programs} threads 1 300)
  set_tests_properties(planted_${name} PROPERTIES
    FIXTURES_REQUIRED programs TIMEOUT 600 ENVIRONMENT TSAN_OPTIONS=halt_on_error=1
    PASS_REGULAR_EXPRESSION "WARNING: ThreadSanitizer: data race")
endfunction()

add_planted(message level.cc "header.word.store(wave.word")
add_planted(clock group.cc "clock.store(clock")
