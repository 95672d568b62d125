//===- Main.cpp - where a generated program starts ------------------------===//
#include "runtime/main/RunProgram.h"
#include "runtime/main/Spinning.h"

namespace {
__attribute__((section(".preinit_array"), used)) void (*beforeLoading)(int, char **,
                                                                       char **) = divisi::runtime::limitSpinning;
} // namespace

int main(int argc, char **argv) { return divisi::runtime::runProgram(divisi_program, argc, argv); }
