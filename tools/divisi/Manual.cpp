// divisi manual: writes man pages from what --help shows.
#include "divisi/Commands.h"
#include "divisi/Describe.h"
#include "divisi/Output.h"
#include "divisi/Version.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace divisi;
using namespace divisi::tools;

/// The text as troff takes it: '-' and '\' are commands there, and so is '.' at the start of a line.
static std::string escape(const std::string &text) {
  std::string escaped;
  for (char c : text) {
    if ((c == '.' || c == '\'') && (escaped.empty() || escaped.back() == '\n'))
      escaped += "\\&";
    escaped += c == '-' ? "\\-" : c == '\\' ? "\\e" : std::string(1, c);
  }
  return escaped;
}

static std::string dashed(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

static std::string entry(const FlagText &flag) {
  std::string text = ".TP\n";
  for (const std::string &name : flag.names)
    text += (&name == flag.names.data() ? "\\fB" : ", \\fB") + escape(name) + "\\fR";
  std::string choices;
  for (const std::string &choice : flag.choices)
    choices += (choices.empty() ? "" : "|") + choice;
  if (!flag.value.empty() && !flag.argument)
    text += " \\fI" + escape(choices.empty() ? flag.value : choices) + "\\fR";
  return text + "\n" + (flag.help.empty() ? "\\&" : escape(flag.help)) + "\n";
}

std::string tools::manualPage(const CommandText &command) {
  std::string title = dashed(command.name), help = command.help, version = describeVersion();
  help.erase(help.find_last_not_of(" \n") + 1);
  for (char &c : title)
    c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::string text = ".TH " + title + " 1 \"\" \"" + version.substr(0, version.find('\n')) + "\" \"Divisi\"\n.SH NAME\n";
  text += escape(dashed(command.name)) + " \\- " + escape(help) + "\n.SH SYNOPSIS\n\\fB" + escape(command.name) + "\\fR";
  text += command.commands.empty() ? " [\\fIflags\\fR]" : " \\fIcommand\\fR [\\fIflags\\fR]";
  for (const FlagGroup &group : command.groups)
    for (const FlagText &flag : group.flags)
      if (flag.argument)
        text += " \\fI" + escape(flag.names[0]) + "\\fR";
  text += "\n";
  if (!command.commands.empty())
    text += ".SH COMMANDS\n";
  for (const CommandText &inner : command.commands)
    text += ".TP\n\\fB" + escape(inner.name) + "\\fR\n" + escape(inner.help) + "\n";
  for (const FlagGroup &group : command.groups) {
    text += group.name.empty() ? ".SH OPTIONS\n" : ".SS " + escape(group.name) + "\n";
    text += group.help.empty() ? "" : escape(group.help) + "\n";
    for (const FlagText &flag : group.flags)
      text += entry(flag);
  }
  std::string examples = command.footer;
  for (const char *title : {"Examples:\n", "Example:\n"})
    if (examples.starts_with(title))
      examples.erase(0, std::char_traits<char>::length(title));
  if (!examples.empty())
    text += ".SH EXAMPLES\n.nf\n" + escape(examples) + "\n.fi\n";
  text += ".SH EXIT STATUS\n0: success; 2: a wrong command line; 3: no plan fits the memory (divisi plan, divisi explain); 1: any "
          "other error, which is one line.\n.SH SEE ALSO\n";
  std::string parent = command.name.substr(0, command.name.rfind(' '));
  text += parent == command.name ? "" : "\\fB" + escape(dashed(parent)) + "\\fR(1)\n";
  for (const CommandText &inner : command.commands)
    text += "\\fB" + escape(dashed(inner.name)) + "\\fR(1)\n";
  return text;
}

static std::string writePages(const CommandText &command, const std::string &folder) {
  std::string wrong = writeOutput(folder + "/" + dashed(command.name) + ".1",
                                  [&](llvm::raw_ostream &out) { out << manualPage(command); });
  for (const CommandText &inner : command.commands)
    if (wrong.empty())
      wrong = writePages(inner, folder);
  return wrong;
}

void tools::addManual(CLI::App &app, int &exitCode) {
  auto folder = std::make_shared<std::string>();
  CLI::App *command = app.add_subcommand("manual", "write the man pages of all commands to a folder");
  command->group(""); // of the build
  command->add_option("folder", *folder, "the folder, such as share/man/man1")->required();
  command->callback([&app, folder, &exitCode] {
    std::error_code code = llvm::sys::fs::create_directories(*folder);
    std::string wrong = code ? "cannot make the folder '" + *folder + "': " + code.message()
                             : writePages(describeCommand(app), *folder);
    if (wrong.empty())
      return;
    llvm::errs() << "error: " << wrong << "\n";
    exitCode = 1;
  });
}
