# The Debian package: `ninja -C build package-deb` writes build/package/divisi_VERSION_ARCHITECTURE.deb. It has what `cmake --install` has. What
# the executables load, dpkg-shlibdeps finds; what links the programs that they write is named here.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME divisi)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "Divisi <divisi@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "compiler that trains ONNX models as native programs")
set(CPACK_PACKAGE_DESCRIPTION "Divisi compiles a model from ONNX into a native program that trains it, on one device or many.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_CMAKE_PROJECTS "${PROJECT_BINARY_DIR};${PROJECT_NAME};ALL;/")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "g++, libopenblas-openmp-dev, libdnnl-dev, libjpeg62-turbo-dev, libpng-dev")
if(TARGET DivisiMpi)
  string(APPEND CPACK_DEBIAN_PACKAGE_DEPENDS ", libopenmpi-dev, openmpi-bin")
endif()
include(CPack)

add_custom_target(package-deb COMMAND ${CMAKE_CPACK_COMMAND} -G DEB -B ${PROJECT_BINARY_DIR}/package
  COMMAND ${CMAKE_COMMAND} -E echo "the package lies in ${PROJECT_BINARY_DIR}/package"
  DEPENDS divisi divisi-opt divisi-lsp-server divisi-share WORKING_DIRECTORY ${PROJECT_BINARY_DIR} USES_TERMINAL VERBATIM)
