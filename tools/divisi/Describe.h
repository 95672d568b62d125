#pragma once
#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace divisi::tools {

/// A flag or argument of a command, as its help, its man page and the completion of a shell show it.
struct FlagText {
  std::vector<std::string> names;   // "-o", "--loss"; of an argument: its name alone
  std::string value;                // what follows it; empty if nothing does
  std::string help;                 // one line
  std::vector<std::string> choices; // the only values, if they are known
  bool argument = false;
};

struct FlagGroup {
  std::string name, help; // empty for those without a group
  std::vector<FlagText> flags;
};

/// A command with all that its help has.
struct CommandText {
  std::string name; // "divisi compile"
  std::string help, footer;
  std::vector<FlagGroup> groups;
  std::vector<CommandText> commands;
};

/// Reads the description of a command and of its subcommands, but for those that help hides.
CommandText describeCommand(const CLI::App &app);

/// A script that completes subcommands, flags, values and files in a shell ("bash" or "zsh").
std::string completionScript(const CommandText &command, const std::string &shell);

/// The man page of a command (man(7)).
std::string manualPage(const CommandText &command);

} // namespace divisi::tools
