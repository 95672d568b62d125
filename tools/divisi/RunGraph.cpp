#include "divisi/Commands.h"
void divisi::tools::addRunGraph(CLI::App &, int &) {}
