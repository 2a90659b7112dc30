# Included after project(): optimization is in the flags of mbed-core-flags, and the configuration is made by a script.
foreach(language C CXX)
  set(CMAKE_${language}_FLAGS_RELEASE "")
endforeach()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
execute_process(
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/configure.py ${CMAKE_BINARY_DIR}/mbed_config.h
  COMMAND_ERROR_IS_FATAL ANY
)
