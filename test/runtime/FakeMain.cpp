// A generated program as the linker makes it, with the runtime's own main().
#include "test/runtime/FakeProgram.h"

extern "C" const DivisiProgram divisi_program = divisi::test::fakeProgram();
