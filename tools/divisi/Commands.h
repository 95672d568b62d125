#pragma once
#include <CLI/CLI.hpp>

#include <string>

namespace divisi::tools {

/// The place of the runtime's library; set by main().
struct Installation {
  std::string libraryFolder;
};

// One function for each subcommand: adds it with its flags. Its callback sets `exitCode`.
void addCheckpoint(CLI::App &app, int &exitCode);
void addCompile(CLI::App &app, const Installation &installation, int &exitCode);
void addData(CLI::App &app, int &exitCode);
void addDoctor(CLI::App &app, int &exitCode);
void addPlan(CLI::App &app, int &exitCode);
void addExplain(CLI::App &app, int &exitCode);
void addDiff(CLI::App &app, int &exitCode);
void addProfile(CLI::App &app, int &exitCode);
void addSimulate(CLI::App &app, int &exitCode);
void addRunGraph(CLI::App &app, int &exitCode);
void addManual(CLI::App &app, int &exitCode);
void addCompletion(CLI::App &app);

} // namespace divisi::tools
