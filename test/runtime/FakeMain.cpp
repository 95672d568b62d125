// A generated program after linking, with the runtime's own main().
#include "test/runtime/FakeProgram.h"

extern "C" const DivisiProgram divisi_program = divisi::test::fakeProgram();
