// divisi completion: writes a script with which a shell completes the words of a divisi command.
#include "divisi/Commands.h"
#include "divisi/Describe.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace divisi::tools;

namespace {

/// All commands, each before those in it.
void visit(const CommandText &command, llvm::function_ref<void(const CommandText &)> what) {
  what(command);
  for (const CommandText &inner : command.commands)
    visit(inner, what);
}

/// The last word of a command's name.
std::string lastWord(const CommandText &command) { return command.name.substr(command.name.rfind(' ') + 1); }

/// The words that may begin with what is typed: subcommands, values of an argument, and flags in full.
std::string wordsOf(const CommandText &command) {
  std::vector<std::string> words;
  for (const CommandText &inner : command.commands)
    words.push_back(lastWord(inner));
  for (const FlagGroup &group : command.groups)
    for (const FlagText &flag : group.flags)
      if (flag.argument)
        words.insert(words.begin(), flag.choices.begin(), flag.choices.end());
      else
        words.push_back(flag.names.back());
  return llvm::join(words, " ");
}

std::string bashScript(const CommandText &program) {
  std::string steps, choices, words;
  visit(program, [&](const CommandText &command) {
    for (const CommandText &inner : command.commands)
      steps += "      '" + command.name + "/" + lastWord(inner) + "') command='" + inner.name + "' ;;\n";
    for (const FlagGroup &group : command.groups)
      for (const FlagText &flag : group.flags)
        for (const std::string &name : flag.names)
          if (!flag.choices.empty() && !flag.argument)
            choices += "    '" + command.name + "/" + name + "') words='" + llvm::join(flag.choices, " ") + "' ;;\n";
          else if (!flag.value.empty() && !flag.argument)
            choices += "    '" + command.name + "/" + name + "') return ;; # files\n";
    words += "    '" + command.name + "') words='" + wordsOf(command) + "' ;;\n";
  });
  return "# Completion of " + program.name + " for bash: source <(" + program.name + " completion bash)\n_" + program.name +
         "() {\n  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command='" + program.name +
         "' words= i\n  COMPREPLY=()\n  for ((i = 1; i < COMP_CWORD; i++)); do\n    case \"$command/${COMP_WORDS[i]}\" in\n" + steps +
         "    esac\n  done\n  case \"$command/$before\" in\n" + choices +
         "  esac\n  [[ -n $words ]] || case \"$command\" in\n" + words +
         "  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\ncomplete -o bashdefault -o default -F _" +
         program.name + " " + program.name + "\n";
}

/// A text within single quotes in an argument of _arguments or _describe, where ':' and brackets have a meaning.
std::string quoted(const std::string &text) {
  std::string escaped;
  for (char c : text)
    escaped += c == '\'' ? "'\\''" : c == ':' || c == '[' || c == ']' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return escaped;
}

std::string zshScript(const CommandText &program) {
  std::string functions;
  auto functionOf = [](const CommandText &command) {
    std::string name = "_" + command.name;
    std::replace_if(name.begin(), name.end(), [](char c) { return c == ' ' || c == '-'; }, '_');
    return name;
  };
  visit(program, [&](const CommandText &command) {
    functions += functionOf(command) + "() {\n";
    std::string arguments, values;
    for (const FlagGroup &group : command.groups)
      for (const FlagText &flag : group.flags)
        if (flag.argument)
          values += llvm::join(flag.choices, " ");
    for (const FlagGroup &group : command.groups)
      for (const FlagText &flag : group.flags)
        for (const std::string &name : flag.names)
          if (!flag.argument)
            arguments += " \\\n    '*" + name + "[" + quoted(flag.help) + "]" +
                         (flag.value.empty()      ? ""
                          : flag.choices.empty() ? ":" + quoted(flag.value) + ":_files"
                                                 : ":value:(" + llvm::join(flag.choices, " ") + ")") +
                         "'";
    if (command.commands.empty()) {
      functions += "  _arguments" + arguments + (values.empty() ? " \\\n    '*:file:_files'\n}\n" : " \\\n    '1:value:(" + values + ")'\n}\n");
      return;
    }
    functions += "  local -a commands\n  local state line\n  commands=(\n";
    std::string calls;
    for (const CommandText &inner : command.commands) {
      functions += "    '" + lastWord(inner) + ":" + quoted(inner.help) + "'\n";
      calls += "      " + lastWord(inner) + ") " + functionOf(inner) + " ;;\n";
    }
    functions += "  )\n  _arguments -C" + arguments + " \\\n    '1:command:->command' \\\n    '*::argument:->argument'\n" +
                 "  case $state in\n    command) _describe command commands ;;\n    argument) case $line[1] in\n" + calls +
                 "    esac ;;\n  esac\n}\n";
  });
  return "#compdef " + program.name + "\n# Completion of " + program.name + " for zsh: a file _" + program.name +
         " in a folder of $fpath\n" + functions + "compdef _" + program.name + " " + program.name + "\n";
}
} // namespace

std::string divisi::tools::completionScript(const CommandText &command, const std::string &shell) {
  return shell == "bash" ? bashScript(command) : zshScript(command);
}

void divisi::tools::addCompletion(CLI::App &app) {
  auto shell = std::make_shared<std::string>();
  CLI::App *command = app.add_subcommand("completion", "print a script with which bash or zsh completes divisi's commands and flags");
  command->add_option("shell", *shell, "bash or zsh")->required()->check(CLI::IsMember({"bash", "zsh"}));
  command->footer("Example:\n  source <(divisi completion bash)");
  command->callback([&app, shell] { llvm::outs() << completionScript(describeCommand(app), *shell); });
}
