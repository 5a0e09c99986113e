# What cmake --install installs: library, headers and program (their own rules), and the files by which other builds find them.
include(CMakePackageConfigHelpers)
set(package "${PROJECT_SOURCE_DIR}/abi/package")
set(made "${PROJECT_BINARY_DIR}/package")
configure_file("${package}/dllm.pc.in" "${made}/dllm.pc" @ONLY)
configure_package_config_file("${package}/dllmConfig.cmake.in" "${made}/dllmConfig.cmake"
                              INSTALL_DESTINATION lib/cmake/dllm)
write_basic_package_version_file("${made}/dllmConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${made}/dllm.pc" DESTINATION lib/pkgconfig COMPONENT dev)
install(FILES "${made}/dllmConfig.cmake" "${made}/dllmConfigVersion.cmake" DESTINATION lib/cmake/dllm COMPONENT dev)
install(EXPORT dllmTargets NAMESPACE dllm:: DESTINATION lib/cmake/dllm COMPONENT dev)

install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/README.md" DESTINATION share/doc/dllm
        COMPONENT runtime)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/scripts/recipes" "${PROJECT_SOURCE_DIR}/scripts/examples"
        DESTINATION share/dllm COMPONENT program PATTERN "*.gguf" EXCLUDE)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/bindings/python" DESTINATION share/dllm COMPONENT dev
        PATTERN "__pycache__" EXCLUDE PATTERN "build" EXCLUDE PATTERN "*.egg-info" EXCLUDE)

# The manual page and the completions are made by the program from its own options. Each appears whole: another
# installation of the same build may read them.
install(CODE "
  file(MAKE_DIRECTORY \"${made}\")
  string(RANDOM LENGTH 12 own)
  foreach(page \"--man;dllm.1\" \"--bash;dllm\" \"--zsh;_dllm\" \"--fish;dllm.fish\")
    list(GET page 0 form)
    list(GET page 1 file)
    execute_process(COMMAND \"$<TARGET_FILE:dllm_cli>\" help \${form} OUTPUT_FILE \"${made}/\${file}.\${own}\"
                    RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
      message(FATAL_ERROR \"dllm help \${form} failed: \${status}\")
    endif()
    file(RENAME \"${made}/\${file}.\${own}\" \"${made}/\${file}\")
  endforeach()" COMPONENT program)
install(FILES "${made}/dllm.1" DESTINATION share/man/man1 COMPONENT program)
install(FILES "${made}/dllm" DESTINATION share/bash-completion/completions COMPONENT program)
install(FILES "${made}/_dllm" DESTINATION share/zsh/vendor-completions COMPONENT program)
install(FILES "${made}/dllm.fish" DESTINATION share/fish/vendor_completions.d COMPONENT program)

# Libraries that have no static form that a shared library can take in are installed next to ours, found by its $ORIGIN.
if(DLLM_SELF_CONTAINED)
  foreach(library IN LISTS DLLM_BESIDE)
    install(CODE "file(INSTALL DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib\" TYPE SHARED_LIBRARY FOLLOW_SYMLINK_CHAIN
                       FILES \"${library}\")" COMPONENT runtime)
  endforeach()
endif()
