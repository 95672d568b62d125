# Finds LLVM/MLIR and defines how compiler-side libraries are built. What was tried: HandleLLVMOptions is left out on
# purpose (it forces -fno-exceptions and LLVM's warnings on every target), and only the two shared libraries are linked:
# naming an MLIRxxx archive beside them duplicates TypeIDs.
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
set(MLIR_BINARY_DIR ${PROJECT_BINARY_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)
separate_arguments(DIVISI_LLVM_DEFINITIONS NATIVE_COMMAND ${LLVM_DEFINITIONS})

# Options for every target of ours.
add_library(DivisiOptions INTERFACE)
target_include_directories(DivisiOptions INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
target_compile_options(DivisiOptions INTERFACE -Wall -Wextra -Werror -Wno-missing-field-initializers
  -Wno-unused-parameter # code that tblgen writes
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> # GCC 12 reports std::string's own copies (PR 105651)
  $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage> # it takes files that are compiled as one for headers
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>) # libstdc++ 12's stable_sort calls what C++17 deprecates
if(DIVISI_ASSERTIONS)
  target_compile_options(DivisiOptions INTERFACE -UNDEBUG)
endif()
if(DIVISI_SANITIZE STREQUAL fuzzer)
  # Everything is instrumented, executables alone have libFuzzer's main(). Warnings are for g++ to give.
  add_compile_options(-g1 -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all
    -fno-omit-frame-pointer -fprofile-instr-generate -fcoverage-mapping)
  target_compile_options(DivisiOptions INTERFACE -w)
elseif(DIVISI_SANITIZE)
  # (LLVM has no type information, which -fsanitize=vptr needs.)
  set(DIVISI_SANITIZERS -fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=undefined)
  # (With them g++ warns of variables that are initialized, in LLVM's headers.)
  add_compile_options(${DIVISI_SANITIZERS} -fno-omit-frame-pointer $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  add_link_options(${DIVISI_SANITIZERS})
endif()

# Options for targets that see LLVM.
add_library(DivisiCompilerOptions INTERFACE)
target_link_libraries(DivisiCompilerOptions INTERFACE DivisiOptions)
target_include_directories(DivisiCompilerOptions SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_compile_definitions(DivisiCompilerOptions INTERFACE ${DIVISI_LLVM_DEFINITIONS})
# clang inlines less, which takes a seventh less of a build's processor time, but in the libraries with the property DIVISI_HOT, which
# take most of the time of a search for plans.
target_compile_options(DivisiCompilerOptions INTERFACE
  "$<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:Clang>,$<NOT:$<BOOL:$<TARGET_PROPERTY:DIVISI_HOT>>>>:SHELL:-mllvm -inline-threshold=50>")
# mlir_tablegen looks for included .td files here.
include_directories(${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})

# A static library of the compiler: divisi_compiler_library(Name file.cpp ...). Some files at a time are compiled as one: most
# of the time of a file is MLIR's templates, which are then instantiated once.
function(divisi_compiler_library name)
  add_library(${name} STATIC ${ARGN})
  target_link_libraries(${name} PUBLIC DivisiCompilerOptions)
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${DIVISI_UNITY} UNITY_BUILD_BATCH_SIZE 16)
endfunction()
