//===- FlagErrors.h - what is wrong on a command line -----------*- C++ -*-===//
#ifndef DIVISI_RUNTIME_MAIN_FLAGERRORS_H
#define DIVISI_RUNTIME_MAIN_FLAGERRORS_H

#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
} // namespace CLI

namespace divisi::runtime {

/// The flags of a command and of its groups, such as "--lr" and "-o", but not of its subcommands.
std::vector<std::string> flagsOf(const CLI::App &command);

/// One line that says what is wrong on the command line that `app` has refused, and what to write instead. `elsewhere`:
/// flags that other commands have, and those commands in words ("divisi compile").
std::string describeFlagError(const CLI::App &app, const CLI::ParseError &error,
                              const std::map<std::string, std::string> &elsewhere = {});

/// Why a word that no command line takes is wrong: an unknown flag of `command`, or a value too many. `name`: the
/// command in words.
std::string describeExtra(const std::string &word, const CLI::App &command, const std::string &name,
                          const std::map<std::string, std::string> &elsewhere = {});

} // namespace divisi::runtime

#endif
