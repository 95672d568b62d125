#include "divisi/Describe.h"

using namespace divisi::tools;

static bool isEverything(const CLI::App *) { return true; }

static FlagText describeFlag(const CLI::Option &option) {
  FlagText flag;
  for (const std::string &name : option.get_snames())
    flag.names.push_back("-" + name);
  for (const std::string &name : option.get_lnames())
    flag.names.push_back("--" + name);
  flag.argument = flag.names.empty();
  if (flag.argument)
    flag.names.push_back(option.get_name());
  flag.help = option.get_description();
  std::replace(flag.help.begin(), flag.help.end(), '\n', ' ');
  if (option.get_items_expected_max() == 0)
    return flag;
  std::string type = option.get_type_name(); // "TEXT", "INT:INT in [1 - 4096]", "TEXT:{a,b}"
  flag.value = type.substr(0, type.find(':'));
  if (size_t open = type.find('{'); open != std::string::npos && type.ends_with("}"))
    flag.choices = CLI::detail::split(type.substr(open + 1, type.size() - open - 2), ',');
  return flag;
}

static void addGroups(const CLI::App &app, std::vector<FlagGroup> &groups) {
  FlagGroup group{app.get_parent() && app.get_name().empty() ? app.get_group() : "", "", {}};
  group.help = group.name.empty() ? "" : app.get_description();
  for (const CLI::Option *option : app.get_options())
    if (!option->get_group().empty() && (group.name.empty() || option != app.get_help_ptr())) // each group has its own
      group.flags.push_back(describeFlag(*option));
  if (!group.flags.empty())
    groups.push_back(std::move(group));
  for (const CLI::App *inner : app.get_subcommands(isEverything))
    if (inner->get_name().empty())
      addGroups(*inner, groups);
}

CommandText divisi::tools::describeCommand(const CLI::App &app) {
  CommandText text{app.get_name(), app.get_description(), app.get_footer(), {}, {}};
  for (const CLI::App *parent = app.get_parent(); parent; parent = parent->get_parent())
    text.name = parent->get_name() + " " + text.name;
  addGroups(app, text.groups);
  for (const CLI::App *inner : app.get_subcommands(isEverything))
    if (!inner->get_name().empty() && !inner->get_group().empty())
      text.commands.push_back(describeCommand(*inner));
  return text;
}
