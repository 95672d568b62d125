#include "runtime/main/FlagErrors.h"
#include "divisi/suggest.h"
#include "runtime/core/Status.h"

#include <CLI/CLI.hpp>

using namespace divisi;
using namespace divisi::runtime;

namespace {
bool isEverything(const CLI::App *) { return true; }

template <typename Visit> void visitOptions(const CLI::App &command, const Visit &visit) {
  for (const CLI::Option *option : command.get_options())
    visit(*option);
  for (const CLI::App *group : command.get_subcommands(isEverything))
    if (group->get_name().empty())
      visitOptions(*group, visit);
}

/// "divisi compile"
std::string wordsOf(const CLI::App &command) {
  const CLI::App *parent = command.get_parent();
  return (parent ? wordsOf(*parent) + " " : "") + command.get_name();
}

/// The command that was parsed: the last subcommand that the command line names.
const CLI::App &lastParsed(const CLI::App &app) {
  for (const CLI::App *command : app.get_subcommands())
    if (!command->get_name().empty())
      return lastParsed(*command);
  return app;
}

/// The option of a command whose name an error text mentions; null if there is none.
const CLI::Option *findOption(const CLI::App &command, const std::string &name) {
  const CLI::Option *found = nullptr;
  visitOptions(command, [&](const CLI::Option &option) {
    if (option.get_name() == name || option.check_name(name))
      found = &option;
  });
  return found;
}

std::string valueOf(const CLI::Option *option) {
  std::string type = option ? option->get_type_name() : "";
  if (type.starts_with("INT") || type.starts_with("UINT"))
    return "a whole number";
  return type.starts_with("FLOAT") ? "a number" : type.empty() || type.starts_with("TEXT") ? "a value" : type;
}

/// "--flag" of "--flag=value", and of "-flag", as which long flags are mistyped.
std::string flagIn(const std::string &word) {
  std::string flag = word.substr(0, word.find('='));
  return flag.starts_with("--") || flag.size() <= 2 ? flag : "-" + flag;
}

/// The flags whose help begins with the words of the flag: --lr for --learning-rate.
std::vector<std::string> flagsInWords(const CLI::App &command, std::string wanted) {
  std::replace_if(wanted.begin(), wanted.end(), [](char c) { return c == '-' || c == '_'; }, ' ');
  std::vector<std::string> found;
  visitOptions(command, [&](const CLI::Option &option) {
    std::string help = option.get_description() + " ";
    if (!option.get_lnames().empty() && help.starts_with(wanted) && !std::isalnum(static_cast<unsigned char>(help[wanted.size()])))
      found.push_back(option.get_lnames()[0]);
  });
  return found;
}

/// The flags with two dashes, without these.
std::vector<std::string> longFlagsOf(const CLI::App &command) {
  std::vector<std::string> flags;
  visitOptions(command, [&](const CLI::Option &option) {
    flags.insert(flags.end(), option.get_lnames().begin(), option.get_lnames().end());
  });
  return flags;
}

/// The messages of CLI::Range, "Value VALUE not in range A to B", and of CLI::IsMember, "VALUE not in {A,B}", with the
/// nearest choice if there are more than two.
std::string describeChoice(const std::string &flag, const std::string &what) {
  if (size_t range = what.rfind(" not in range "); range != std::string::npos && what.starts_with("Value "))
    return concat(flag, " expects a number from ", what.substr(range + 14), ", got '", what.substr(6, range - 6), "'");
  size_t at = what.rfind(" not in {");
  if (at == std::string::npos || !what.ends_with("}"))
    return flag + ": " + what;
  std::string value = what.substr(0, at), list = what.substr(at + 9, what.size() - at - 10);
  std::vector<std::string> choices = CLI::detail::split(list, ',');
  return concat(flag, " expects ", listed(choices), ", got '", value, "'",
                choices.size() > 2 ? didYouMean(value, choices) : "");
}

std::string describeMissing(const CLI::App &command, const std::string &name) {
  const CLI::Option *option = findOption(command, name);
  std::string words = wordsOf(command);
  if (!option || option->get_positional())
    return concat("the argument ", name, " is missing: ", words, " --help says what it is");
  return concat(name, " is missing: ", words, " --help says what it is");
}

std::string describeSubcommand(const CLI::App &app, const std::map<std::string, std::string> &elsewhere) {
  std::vector<std::string> commands;
  for (const CLI::App *command : app.get_subcommands(isEverything))
    if (!command->get_name().empty() && !command->get_group().empty()) // help hides those without a group
      commands.push_back(command->get_name());
  std::string list;
  for (const std::string &command : commands)
    list += (list.empty() ? "" : ", ") + command;
  for (const std::string &word : app.remaining())
    if (!word.starts_with("-")) {
      std::string hint = didYouMean(word, commands);
      return concat("unknown subcommand '", plainName(word, false), "' of ", wordsOf(app),
                    hint.empty() ? "; there are: " + list : hint);
    }
  for (const std::string &word : app.remaining())
    return describeExtra(word, app, wordsOf(app), elsewhere);
  return concat("expected a subcommand of ", wordsOf(app), ": ", list);
}
} // namespace

std::vector<std::string> divisi::runtime::flagsOf(const CLI::App &command) {
  std::vector<std::string> flags;
  visitOptions(command, [&](const CLI::Option &option) {
    for (const std::string &name : option.get_lnames())
      flags.push_back("--" + name);
    for (const std::string &name : option.get_snames())
      flags.push_back("-" + name);
  });
  return flags;
}

std::string divisi::runtime::describeExtra(const std::string &word, const CLI::App &command, const std::string &name,
                                           const std::map<std::string, std::string> &elsewhere) {
  std::string shown = plainName(word, false);
  if (!word.starts_with("-") || word == "-") {
    std::string remedy = concat(name, " --help lists what it takes");
    if (word.find('=') != std::string::npos)
      remedy = "a flag takes one value: write it again before each";
    else if (const CLI::Option *output = findOption(command, "-o"); output && output->count() == 0)
      remedy = concat("-o ", shown, " writes it");
    return concat("unexpected argument '", shown, "' of ", name, ": ", remedy);
  }
  std::string flag = flagIn(word), text = concat("unknown flag ", shown.substr(0, shown.find('=')), " of ", name);
  std::vector<std::string> flags = longFlagsOf(command), others, near;
  for (const auto &[other, where] : elsewhere)
    if (other.starts_with("--"))
      others.push_back(other.substr(2));
  std::string bare = flag.substr(std::min(flag.size(), flag.find_first_not_of('-')));
  if (findOption(command, flag)) // with one dash
    near = {bare};
  else if (auto known = elsewhere.find(flag); known != elsewhere.end() && flagsInWords(command, bare).empty())
    return concat(text, ": it is a flag of ", known->second);
  for (auto tried : {flagsInWords(command, bare), namesByDistance(bare, flags)})
    if (near.empty())
      near = tried;
  if (std::vector<std::string> other = namesByDistance(bare, others); near.empty() && !other.empty())
    return concat(text, "; did you mean '--", other[0], "', a flag of ", elsewhere.at("--" + other[0]), "?");
  if (near.empty())
    near = namesContaining(bare, flags);
  for (std::string &other : near)
    other = "--" + other;
  if (!near.empty())
    return concat(text, "; did you mean ", alternatives(near), "?");
  return concat(text, ": ", name, " --help lists its flags");
}

std::string divisi::runtime::describeFlagError(const CLI::App &app, const CLI::ParseError &error,
                                               const std::map<std::string, std::string> &elsewhere) {
  const CLI::App &command = lastParsed(app);
  std::string what = plainName(error.what(), false);
  auto is = [&](CLI::ExitCodes kind) { return error.get_exit_code() == static_cast<int>(kind); };
  if (is(CLI::ExitCodes::ExtrasError))
    for (const CLI::App *at : {&app, &command})
      if (std::vector<std::string> words = at->remaining(); !words.empty()) {
        auto flag = std::find_if(words.begin(), words.end(), [](auto &word) { return word.size() > 1 && word[0] == '-'; });
        return describeExtra(flag == words.end() ? words[0] : *flag, *at, wordsOf(*at), elsewhere);
      }
  if (is(CLI::ExitCodes::RequiredError) && what.find("ubcommand") != std::string::npos)
    return describeSubcommand(command, elsewhere);
  if (is(CLI::ExitCodes::RequiredError) && what.ends_with(" is required"))
    return describeMissing(command, what.substr(0, what.rfind(" is required")));
  size_t colon = what.find(": ");
  if (is(CLI::ExitCodes::ConversionError) && what.starts_with("Could not convert: ")) {
    size_t equals = what.find(" = ");
    std::string flag = what.substr(colon + 2, equals - colon - 2);
    return concat(flag, " expects ", valueOf(findOption(command, flag)), ", got '", what.substr(equals + 3), "'");
  }
  if (is(CLI::ExitCodes::ArgumentMismatch) && colon != std::string::npos) {
    std::string flag = what.substr(0, colon);
    if (what.find("At Most") != std::string::npos || what.find("at most") != std::string::npos)
      return concat(flag, " is given more than once: leave out all but one");
    return concat(flag, " needs ", valueOf(findOption(command, flag)), " after it");
  }
  if (is(CLI::ExitCodes::ValidationError) && colon != std::string::npos) {
    std::string flag = what.substr(0, colon), rest = what.substr(colon + 2);
    if (size_t path = rest.find("File does not exist: "); path == 0)
      return concat(flag, ": there is no file '", rest.substr(21), "'", didYouMeanFile(rest.substr(21)));
    return describeChoice(flag, rest);
  }
  return what;
}
