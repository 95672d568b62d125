//===- Main.cpp - where a generated program starts ------------------------===//
#include "runtime/main/RunProgram.h"

int main(int argc, char **argv) { return divisi::runtime::runProgram(divisi_program, argc, argv); }
